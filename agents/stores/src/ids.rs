//! Ids and directory names as the agents make them.

use sha2::{Digest, Sha256};
use triplane_core::agent::StoreFailure;
use triplane_protocol::{ErrorCode, SessionId};
use uuid::Uuid;

/// A fresh random id.
pub(crate) fn uuid4() -> String {
    let mut bytes = [0; 16];
    // Without randomness from the system the time and the counter of version 7 are still unique.
    match getrandom::fill(&mut bytes) {
        Ok(()) => uuid::Builder::from_random_bytes(bytes).into_uuid().to_string(),
        Err(_) => uuid7(),
    }
}

/// A fresh id that sorts by time.
pub(crate) fn uuid7() -> String {
    Uuid::now_v7().to_string()
}

/// The id that a session is to get: the given one, when it is a UUID, as these stores want.
pub(crate) fn uuid_for(id: Option<&SessionId>, fresh: fn() -> String) -> Result<SessionId, StoreFailure> {
    match id {
        Some(id) if Uuid::try_parse(id.as_str()).is_ok_and(|uuid| uuid.to_string() == id.as_str()) => Ok(id.clone()),
        Some(_) => Err(StoreFailure::new(ErrorCode::Invalid, "id: sessions of this agent have UUIDs in lower case")),
        None => parse(&fresh()),
    }
}

/// An id that came from elsewhere.
pub(crate) fn parse(text: &str) -> Result<SessionId, StoreFailure> {
    SessionId::parse(text).map_err(|why| StoreFailure::new(ErrorCode::Invalid, why))
}

/// The directory name that Claude Code and Qwen Code give to a project.
pub(crate) fn slug(cwd: &str) -> String {
    const LONGEST: usize = 200;
    let slug: String = cwd.encode_utf16().map(plain).collect();
    match slug.get(..LONGEST) {
        Some(head) if slug.len() > LONGEST => {
            let hash = cwd.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
            format!("{head}-{}", base36(hash.unsigned_abs()))
        }
        Some(_) | None => slug,
    }
}

fn plain(unit: u16) -> char {
    u8::try_from(unit).ok().filter(u8::is_ascii_alphanumeric).map_or('-', char::from)
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit(number % 36, 36));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

/// SHA-256 in lower case hex.
pub(crate) fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Random letters and digits.
pub(crate) fn letters(count: usize) -> String {
    const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut bytes = vec![0; count];
    if getrandom::fill(&mut bytes).is_err() {
        bytes = uuid7().bytes().filter(u8::is_ascii_alphanumeric).cycle().take(count).collect();
    }
    let letter = |byte: u8| LETTERS.get(usize::from(byte) % LETTERS.len()).copied().map_or('0', char::from);
    bytes.into_iter().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_named_as_the_agent_names_them() {
        assert_eq!(slug("/home/me/my project.x"), "-home-me-my-project-x");
        assert_eq!(slug("/é"), "--");
        let long = format!("/{}", "a".repeat(250));
        let name = slug(&long);
        assert!(name.starts_with(&format!("-{}-", "a".repeat(199))), "{name}");
        assert!(name.len() > 201 && name.len() < 210, "{name}");
    }

    #[test]
    fn a_wanted_id_must_be_one_that_the_agent_takes() {
        let fine = SessionId::parse("01890000-0000-7000-8000-000000000009").unwrap();
        assert_eq!(uuid_for(Some(&fine), uuid4).unwrap(), fine);
        let other = SessionId::parse("mine").unwrap();
        assert_eq!(uuid_for(Some(&other), uuid4).unwrap_err().code, ErrorCode::Invalid);
    }
}
