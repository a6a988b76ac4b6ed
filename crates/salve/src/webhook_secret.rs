//! Signatures as Standard Webhooks has them.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// How a secret begins.
const PREFIX: &str = "whsec_";

/// A secret that messages are signed with.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// A text that is no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `whsec_` and 24 to 64 bytes in base64")]
pub struct BadSecret;

impl FromStr for Secret {
    type Err = BadSecret;

    fn from_str(text: &str) -> Result<Self, BadSecret> {
        let bytes = text.strip_prefix(PREFIX).and_then(|text| STANDARD.decode(text).ok());
        let fits = |bytes: &Vec<u8>| (24..=64).contains(&bytes.len());
        bytes.filter(fits).map(Self).ok_or(BadSecret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Returns the signatures of a message by each secret, or none where there is no secret.
pub(crate) fn sign(secrets: &[Secret], id: &str, seconds: i64, body: &str) -> Option<String> {
    let signed = format!("{id}.{seconds}.{body}");
    let one = |secret: &Secret| {
        // A key of any length will do.
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).ok()?;
        mac.update(signed.as_bytes());
        Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    };
    let all: Vec<String> = secrets.iter().filter_map(one).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_signature_that_openssl_gives_it() {
        let key = STANDARD.encode(b"0123456789abcdef01234567");
        let secret: Secret = format!("whsec_{key}").parse().unwrap();
        // printf 'msg_1.1700000000.{"a":1}' | openssl dgst -sha256 -hmac 0123456789abcdef01234567
        let want = "WUgAXU8H0NQ1/7M+TtMwKma2b74a3/TCgekiM3YUdN8=";
        let signed = sign(std::slice::from_ref(&secret), "msg_1", 1_700_000_000, r#"{"a":1}"#);
        assert_eq!(signed.as_deref(), Some(&*format!("v1,{want}")));
        let two = sign(&[secret.clone(), secret], "msg_1", 1_700_000_000, r#"{"a":1}"#);
        assert_eq!(two, Some(format!("v1,{want} v1,{want}")));
        assert_eq!(sign(&[], "msg_1", 1_700_000_000, ""), None);
    }

    #[test]
    fn a_secret_is_of_a_safe_length_and_does_not_show() {
        for wrong in ["", "whsec_", "whsec_c2hvcnQ=", "abcdefghijklmnopqrstuvwxyz", "whsec_%%%"] {
            assert_eq!(wrong.parse::<Secret>(), Err(BadSecret), "{wrong}");
        }
        let secret: Secret = format!("whsec_{}", STANDARD.encode([7; 32])).parse().unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }
}
