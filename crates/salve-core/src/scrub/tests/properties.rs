//! What holds for every text.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::super::*;
use super::fill::fill;
use super::scrubber;

/// Pieces of text that matter to the scrubber, to be put together at random.
fn piece() -> impl Strategy<Value = String> {
    let seeds = any::<u64>();
    let templates = prop::sample::select(vec![
        "gh{}p_{w36}",
        "password=",
        "PASSWORD: ",
        "\"token\": \"",
        "{w24}",
        "{x40}",
        "hunter2",
        "\n",
        "\r\n",
        " ",
        "://",
        "https://user:",
        "amqp://guest:guest",
        "GPG_KEY=",
        "@host/path",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----END RSA PRIVATE KEY-----",
        "{b64}\n",
        "{b20}=\n",
        "-----BEGIN PRIVATE KEY-----\n{b64}\n",
        "\nProc-Type: 4,ENCRYPTED\n",
        "app_1  | ",
        "[secret:private-key:12345678]",
        "Bearer {w30}",
        "Authorization: ",
        "Cookie: sid={w24}; theme=dark",
        "\"",
        "'",
        "\\",
        ",",
        ";",
        "mysql -u root -p",
        "curl -u me:{w9} http://h",
        "[secret:",
        "[secret:token:12345678]",
        ":12345678]",
        "AKIA{A16}",
        "eyJ{u30}.eyJ{u40}.{u43}",
        "é€",
        "key",
        "=",
        "secret",
        "export API_KEY=",
        "--token ",
        "mnemonic: ",
        "word word",
        "env-{w12}-value",
        "x@tcp(",
        "<password>",
        "</password>",
        "value=",
        "\n- name: TOKEN\n",
        "- name: \"DB_PASSWORD\"\r\n",
        "  value: {w24}\n",
        "  value: \"",
        "Content-Disposition: form-data; name=\"password\"\r\n\r\n",
    ]);
    (templates, seeds).prop_map(|(template, seed)| fill(template, seed))
}

/// Pieces of private keys, whole, broken, and scrubbed before.
fn key_piece() -> impl Strategy<Value = String> {
    let templates = prop::sample::select(vec![
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n",
        "-----BEGIN EC PRIVATE KEY-----\\n",
        "------BEGIN EC PRIVATE KEY-----\n-",
        "------END EC PRIVATE KEY-----\n",
        "Private-Lines: 3\n",
        "Private-MAC: {x40}\n",
        "-{b64}\n",
        "-----BEGIN CERTIFICATE-----\n",
        "-----END RSA PRIVATE KEY-----",
        "-----END PRIVATE KEY-----\n",
        "{b64}\n",
        "{b64}\r\n",
        "{b64}\\n",
        "{b64}",
        "{b20}=\n",
        "{b20}",
        "Ab==",
        "[secret:private-key:12345678]",
        "[secret:token:12345678]",
        "[secret:token:12345678]\n",
        "Proc-Type: 4,ENCRYPTED\n",
        "app_1  | ",
        "gh{}p_{w36}",
        "password=",
        "AKIA{A16}",
        "-----",
        "\n",
        " ",
        "\"",
        ",",
        "=",
        "word word",
    ]);
    (templates, any::<u64>()).prop_map(|(template, seed)| fill(template, seed))
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::collection::vec(piece(), 0..24).prop_map(|pieces| pieces.concat()),
        2 => prop::collection::vec(key_piece(), 0..24).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
    ]
}

/// Scrubbers with and without secrets and patterns of the user's.
static SCRUBBERS: LazyLock<[Scrubber; 2]> = LazyLock::new(|| [scrubber(), known()]);

fn known() -> Scrubber {
    let scrubber = scrubber()
        .with_variables([("API_TOKEN", "hunter2-known-value"), ("DB_PASSWORD", "github-token")]);
    scrubber.with_patterns([("order", "order-[0-9]{6}"), ("tail", "password=(.*)$")]).unwrap()
}

fn in_chunks(scrubber: &Scrubber, text: &[u8], sizes: &[usize]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text);
    let mut stream = scrubber.stream();
    for &size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, later) = rest.split_at(size.clamp(1, rest.len()));
        stream.push(chunk, &mut out);
        rest = later;
    }
    stream.finish(&mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(500),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn scrubbing_twice_is_scrubbing_once(text in text()) {
        for scrubber in SCRUBBERS.iter() {
            let once = scrubber.scrub(&text);
            let twice = scrubber.scrub(once.as_str());
            prop_assert_eq!(&once, &twice, "{}", text);
        }
    }

    #[test]
    fn however_a_stream_is_cut_its_output_is_the_same(
        text in text(),
        sizes in prop::collection::vec(1usize..40, 1..8),
    ) {
        for scrubber in SCRUBBERS.iter() {
            let whole = scrubber.scrub_bytes(text.as_bytes());
            prop_assert_eq!(&whole, &in_chunks(scrubber, text.as_bytes(), &sizes), "{}", text);
            prop_assert_eq!(&whole, &in_chunks(scrubber, text.as_bytes(), &[1]), "{}", text);
        }
    }

    #[test]
    fn any_bytes_pass(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let out = scrubber().scrub_bytes(&bytes);
        prop_assert_eq!(out, in_chunks(&scrubber(), &bytes, &[3]));
    }
}

/// **Invariant:** What it finds does not depend on how the text is cut into chunks.
#[test]
fn an_over_long_line_is_cut_the_same_however_it_comes() {
    let token = fill("ghp_{w36}", 5);
    let lines = [
        format!("{{\"a\":\"{}\"}},", "x".repeat(50)).repeat(6000),
        "y".repeat(200_000),
        format!("{} {token} ", "€".repeat(30)).repeat(900),
        format!("password={} ", "é9".repeat(40_000)),
    ];
    for line in lines {
        let text = format!("{line} {token}\n{line}");
        let whole = scrubber().scrub_bytes(text.as_bytes());
        assert_eq!(whole, in_chunks(&scrubber(), text.as_bytes(), &[4096]));
        assert_eq!(whole, in_chunks(&scrubber(), text.as_bytes(), &[65_536, 1, 65_535]));
        assert!(!String::from_utf8(whole).unwrap().contains(&token));
    }
}

#[test]
fn what_a_stream_holds_back_is_bounded() {
    let scrubber = scrubber();
    let begin =
        "-----BEGIN RSA PRIVATE KEY-----\n".to_owned() + &(fill("{b64}", 1) + "\n").repeat(2000);
    for text in ["x".repeat(1 << 20), begin, "key=".repeat(1 << 18)] {
        let (mut stream, mut out, mut pushed) = (scrubber.stream(), Vec::new(), 0);
        for chunk in text.as_bytes().chunks(1000) {
            stream.push(chunk, &mut out);
            pushed += chunk.len();
            assert!(stream.held() <= lines::LINE_MAX + block::BLOCK_MAX + 1000, "{}", pushed);
        }
    }
}
