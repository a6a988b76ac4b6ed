//! Whether a command shows something that looks like a secret.
//!
//! The scrubber must leave ordinary text as it is. Here a wrong suspicion costs one question and a
//! missed secret may end up in a process list, so a name that says secret, or a word that looks
//! random, is enough.

use crate::scrub::Scrubber;

/// Returns whether a secret can be seen in `command`; a variable's name is none.
pub(super) fn shows(command: &str, scrubber: &Scrubber) -> bool {
    scrubber.scrub(command) != *command
        || command.contains("PRIVATE KEY")
        || named_values(command)
        || command.split(|c: char| !c.is_ascii_alphanumeric()).any(looks_random)
}

/// Returns whether something called a secret stands beside a value.
fn named_values(command: &str) -> bool {
    let apart = |c: char| c.is_whitespace() || "'\"`;|&()<>".contains(c);
    let logs_in = ["sshpass", "login", "redis-cli"].iter().any(|name| command.contains(name));
    let databases = command.contains("mysql") || command.contains("mariadb");
    let mut before = "";
    for word in command.split(apart).filter(|word| !word.is_empty()) {
        let short = match before {
            "-u" | "--user" | "-U" => {
                word.split_once(':').is_some_and(|(_, value)| is_value(value))
            }
            "-p" | "-a" => logs_in && is_value(word),
            _ => false,
        };
        let attached = databases && word.strip_prefix("-p").is_some_and(is_value);
        if short || attached || in_url(word) || assigned(word) || follows(before, word) {
            return true;
        }
        before = word;
    }
    false
}

/// Returns whether `word` is the value that an option or a header before it announces.
fn follows(before: &str, word: &str) -> bool {
    let announced = before.strip_suffix(':').or_else(|| before.strip_prefix('-'));
    let scheme = ["bearer", "basic", "token"].iter().any(|s| before.eq_ignore_ascii_case(s));
    (is_value(word) && announced.is_some_and(says_secret))
        || (scheme && word.len() >= 8 && is_value(word))
}

/// Returns whether `word` holds `name=value` or `name:value` with a name that says secret.
fn assigned(word: &str) -> bool {
    word.match_indices(['=', ':']).any(|(at, _)| {
        let outside = |c: char| !(c.is_ascii_alphanumeric() || "_.-".contains(c));
        let name = word[..at].rsplit(outside).next().unwrap_or("");
        let value = || word[at + 1..].split(['&', ',', '}']).next().unwrap_or("");
        says_secret(name) && is_value(value())
    })
}

/// Returns whether `word` is a URL with a password or a token before its host.
fn in_url(word: &str) -> bool {
    let Some((_, rest)) = word.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or("");
    // A password may itself hold a slash.
    let user = authority.rsplit_once('@').or_else(|| rest.rsplit_once('@')).map(|(user, _)| user);
    match user.map(|user| user.split_once(':').ok_or(user)) {
        None => false,
        Some(Ok((_, password))) => is_value(password),
        Some(Err(token)) => token.len() >= 16 && is_value(token),
    }
}

fn says_secret(name: &str) -> bool {
    const SHORTEST: usize = 3;
    const PARTS: [&str; 10] = [
        "password",
        "passwd",
        "passphrase",
        "secret",
        "apikey",
        "accesskey",
        "privatekey",
        "credential",
        "authtoken",
        "authkey",
    ];
    const ABOUT: [&str; 20] = [
        "file",
        "stdin",
        "name",
        "path",
        "type",
        "env",
        "id",
        "url",
        "dir",
        "prompt",
        "policy",
        "length",
        "ttl",
        "manager",
        "generator",
        "reset",
        "only",
        "list",
        "expiry",
        "version",
    ];
    const SHORT: [&str; 11] = [
        "pass",
        "pwd",
        "pat",
        "auth",
        "jwt",
        "dsn",
        "cookie",
        "session",
        "sessionid",
        "sig",
        "signature",
    ];
    if name.len() < SHORTEST {
        return false;
    }
    let lower = name.to_ascii_lowercase();
    let plain: String = lower.chars().filter(char::is_ascii_alphanumeric).collect();
    let last = lower.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
    let says = PARTS.iter().any(|part| plain.contains(part))
        || plain.ends_with("token")
        || SHORT.contains(&last);
    says && !ABOUT.contains(&last)
}

/// Returns whether `text` is a value itself, not a variable, a file or a placeholder.
fn is_value(text: &str) -> bool {
    let text = text.trim_matches(['\\', '{', '}']);
    let stands_for = text.starts_with(['$', '%', '<', '@', '*', '-', '/', '.', '~', '[']);
    let words = ["true", "false", "none", "null", "yes", "no", "env", "auto", "legacy", "basic"];
    let number = text.len() < 6 && text.bytes().all(|b| b.is_ascii_digit());
    let word = || words.iter().any(|word| text.eq_ignore_ascii_case(word));
    text.len() >= 3 && !stands_for && !number && !word()
}

/// Returns whether a run of letters and digits looks drawn rather than written.
fn looks_random(run: &str) -> bool {
    const SHORTEST: usize = 16;
    if run.len() < SHORTEST {
        return false;
    }
    let count = |test: fn(&u8) -> bool| run.bytes().filter(test).count();
    let (upper, lower) = (count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let digits = count(u8::is_ascii_digit);
    let hex = run.bytes().all(|b| b.is_ascii_hexdigit());
    (run.len() >= 20 && upper > 1 && lower > 1 && digits > 1)
        || (run.len() >= 16 && lower == 0 && upper > 3 && digits > 0 && !hex)
        || (run.len() >= 24 && upper == 0 && digits > 3 && lower > 3 && !hex)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrub::ScrubKey;

    fn seen(command: &str) -> bool {
        shows(command, &Scrubber::new(ScrubKey::new([5; 32])))
    }

    #[test]
    fn secrets_are_seen_wherever_they_stand() {
        for command in [
            "psql postgres://app:walnut-tree@db/app -c 'select 1'",
            "git clone https://deploy:walnut@git.example/x",
            "git clone https://0123456789abcdefxyz@git.example/x",
            "mysql -uroot -pwalnut db",
            "mysqldump --password=walnut db",
            "mysql --password walnut db",
            "sshpass -p walnut ssh host",
            "docker login -u me -p walnut registry.example",
            "redis-cli -a walnut ping",
            "curl -u me:walnut https://example.com",
            "curl --user me:walnut https://example.com",
            "curl -H 'Authorization: Bearer walnut12345' https://example.com",
            "curl -H \"X-Api-Key: walnut\" https://example.com",
            "curl 'https://example.com/?api_key=walnut'",
            "curl 'https://hooks.example/services/T1/B1/WALNUTwalnutWALNUT42'",
            "NPM_TOKEN=walnut npm ci",
            "PGPASSWORD=walnut psql",
            "DB_PASS=walnut npm test",
            "export SECRET_KEY_BASE=walnut",
            "npm config set //registry.example/:_authToken=walnut",
            "npm ci --//registry.example/:_authToken=walnut",
            "vault login walnut --token=walnut",
            "aws configure set aws_secret_access_key walnut --secret-key=walnut",
            "echo WALNUT0TREE1HOUSE2X",
            "tool --client-secret 'walnut tree'",
            "curl -H 'Cookie: walnut=tree' https://example.com",
            "curl --cookie walnut=tree https://example.com",
            "curl 'https://example.com/x?sig=walnut&v=1'",
            "cat <<E > key\n-----BEGIN OPENSSH PRIVATE KEY-----\nE",
        ] {
            assert!(seen(command), "{command}");
        }
    }

    #[test]
    fn names_files_and_ordinary_words_are_no_secrets() {
        for command in [
            "npm ci",
            "rm -rf node_modules && bun install",
            "npm test > test-output.txt 2>&1",
            "curl -H \"Authorization: Bearer $TOKEN\" https://example.com",
            "psql postgres://app:$DB_PASSWORD@db/app",
            "psql postgres://app:${DB_PASSWORD}@db/app",
            "psql postgres://localhost/app",
            "git clone ssh://git@git.example/x",
            "git clone git@git.example:team/x.git",
            "docker login -u me --password-stdin",
            "docker run -u 1000:1000 alpine",
            "npm login --auth-type=legacy",
            "ssh-keygen -p -f key",
            "tool --token-file ./token --private-key ./key.pem",
            "NPM_TOKEN=$CI_TOKEN npm ci",
            "mkdir -p build && cp -a x y",
            "git checkout 3f5c9d2b8a7e6f1c0d4b5a69788796a5b4c3d2e1",
            "pip install requests==2.31.0",
            "npx jest src/components/VeryLongComponentName.test.tsx",
            "npm run build -- --max-tokens=100",
            "NODE_OPTIONS=--max-old-space-size=4096 npm run build",
            "python manage.py reset_password",
            "touch 2026-01-23T05:36:33Z.log",
        ] {
            assert!(!seen(command), "{command}");
        }
    }
}
