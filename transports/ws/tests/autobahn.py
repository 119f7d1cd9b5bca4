"""Judges a report of Autobahn's cases against the echo example.

usage: autobahn.py INDEX.JSON [LARGEST-MESSAGE]

Without a second argument the echo had the wire's own limit of 1 MiB: a case that sends more must end with 1009, and no other.
"""

import json
import sys

# 301 of the suite's cases; those on compression are left out.
CASES = 301
# Late detection of bad UTF-8 in a fragmented message: allowed by RFC 6455, and not strict.
LATE_UTF8 = {"6.4.3", "6.4.4"}
# Messages of 4, 8 and 16 MiB; 4 MiB in fragments of every size.
OVER_1_MIB = {f"9.{kind}.{n}" for kind in (1, 2) for n in (4, 5, 6)} | {f"9.{kind}.{n}" for kind in (3, 4) for n in range(1, 10)}

index, *limit = sys.argv[1:]
with open(index) as file:
    (cases,) = json.load(file).values()
over = set() if limit else OVER_1_MIB

wrong = []
for name, case in cases.items():
    told, code = case["behavior"], case["remoteCloseCode"]
    if name in over:
        right = told == "FAILED" and code == 1009
    elif name in LATE_UTF8:
        right = told in ("OK", "NON-STRICT")
    else:
        right = told in ("OK", "INFORMATIONAL") and case["behaviorClose"] in ("OK", "INFORMATIONAL")
    if not right:
        wrong.append(f"{name}: {told}, closed with {code} ({case['behaviorClose']})")
if len(cases) != CASES:
    wrong.append(f"{len(cases)} cases, want {CASES}")

count = lambda told: sum(case["behavior"] == told for case in cases.values())
shown = ", ".join(f"{count(told)} {told}" for told in ("OK", "INFORMATIONAL", "NON-STRICT"))
print(f"   Autobahn, messages up to {limit[0] if limit else '1 MiB'}: {len(cases)} cases: {shown}, {len(over)} closed with 1009")
for line in wrong[:20]:
    print(f"   wrong: {line}")
sys.exit(bool(wrong))
