//! The environment of a command: what installing and building need, and no secrets.

use std::ffi::{OsStr, OsString};

/// Variables that commands get; one that ends with `*` stands for all that begin so.
const USUAL: &[&str] = &[
    // Who and where.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "CI",
    "NO_COLOR",
    "FORCE_COLOR",
    "SOURCE_DATE_EPOCH",
    "LD_LIBRARY_PATH",
    "HUSKY",
    "SALVE_AGENT",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    // The way to the registries.
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "NIX_SSL_CERT_FILE",
    "GIT_TERMINAL_PROMPT",
    // JavaScript.
    "NODE_ENV",
    "NODE_OPTIONS",
    "NODE_PATH",
    "npm_config_*",
    "NPM_CONFIG_*",
    "pnpm_config_*",
    "PNPM_HOME",
    "YARN_*",
    "BUN_*",
    "DENO_DIR",
    "COREPACK_*",
    "NVM_*",
    "VOLTA_HOME",
    "FNM_*",
    "ASDF_*",
    "MISE_*",
    "PUPPETEER_*",
    "PLAYWRIGHT_*",
    "CYPRESS_*",
    "ELECTRON_*",
    "PRISMA_*",
    "ESBUILD_*",
    "SHARP_*",
    "NEXT_TELEMETRY_DISABLED",
    // Python.
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "PYTHON*",
    "PIP_*",
    "PIPENV_*",
    "UV_*",
    "POETRY_*",
    "PYENV_*",
    // The others.
    "CARGO_*",
    "RUSTUP_*",
    "RUSTC_*",
    "RUSTC",
    "RUSTFLAGS",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "GOMODCACHE",
    "GOPROXY",
    "GOSUMDB",
    "GONOSUMDB",
    "GOPRIVATE",
    "GOFLAGS",
    "GOTOOLCHAIN",
    "GEM_HOME",
    "GEM_PATH",
    "BUNDLE_*",
    "RBENV_*",
    "RUBY*",
    "JAVA_HOME",
    "GRADLE_*",
    "MAVEN_*",
    "COMPOSER_*",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "AR",
    "MAKEFLAGS",
    "PKG_CONFIG_*",
    "CMAKE_*",
    "NIX_PATH",
    "NIX_PROFILES",
    "HOMEBREW_PREFIX",
];

/// Keeps tools from asking questions and from doing more than installing; git's hooks are sealed, so
/// tools that set them up on every install should not try.
const QUIET: &[(&str, &str)] = &[
    ("npm_config_yes", "true"),
    ("npm_config_update_notifier", "false"),
    ("COREPACK_ENABLE_DOWNLOAD_PROMPT", "0"),
    ("HUSKY", "0"),
    ("LEFTHOOK", "0"),
    ("SKIP_INSTALL_SIMPLE_GIT_HOOKS", "1"),
    ("PIP_NO_INPUT", "1"),
    ("PIP_REQUIRE_VIRTUALENV", "1"),
    ("POETRY_NO_INTERACTION", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("NEXT_TELEMETRY_DISABLED", "1"),
    ("NO_COLOR", "1"),
];

/// Words in the names of variables that hold secrets.
const SECRET: &[&str] =
    &["TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH", "KEY", "PRIVATE", "HTTP_BASIC"];

/// Returns whether a command gets the variable of this name; what the user `listed` it gets.
pub(super) fn passes(name: &OsStr, listed: &[String]) -> bool {
    let Some(name) = name.to_str() else { return false };
    if listed.iter().any(|entry| entry == name) {
        return true;
    }
    let usual = USUAL.iter().any(|usual| match usual.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == *usual,
    });
    let upper = name.to_ascii_uppercase();
    usual && !SECRET.iter().any(|word| upper.contains(word))
}

/// Returns what every command gets besides, in the sandbox or without it.
pub(super) fn quiet() -> impl Iterator<Item = (OsString, OsString)> {
    QUIET.iter().map(|(name, value)| (name.into(), value.into()))
}

/// Returns a command's environment: what passes of ours, what is `added`, its own place for
/// temporary files, and the mark by which it can approve nothing.
pub(super) fn environment(
    added: &[(OsString, OsString)],
    listed: &[String],
    temporary: &OsStr,
) -> Vec<(OsString, OsString)> {
    let ours = std::env::vars_os().filter(|(name, _)| passes(name, listed));
    let fixed = ["TMPDIR", "TMP", "TEMP"].map(|name| (name.into(), temporary.to_owned()));
    let mark = (crate::process::AGENT_MARK.into(), super::REMEDY.into());
    ours.chain(added.iter().cloned()).chain(quiet()).chain(fixed).chain([mark]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_installing_needs_passes_and_secrets_do_not() {
        let listed = ["NPM_TOKEN".to_owned(), "MY_FLAG".to_owned()];
        let passed = ["PATH", "HOME", "LC_ALL", "https_proxy", "npm_config_registry", "CI"];
        for name in
            passed.into_iter().chain(["PIP_INDEX_URL", "CARGO_HOME", "NPM_TOKEN", "MY_FLAG"])
        {
            assert!(passes(OsStr::new(name), &listed), "{name}");
        }
        let kept =
            ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "CARGO_REGISTRY_TOKEN", "SSH_AUTH_SOCK"];
        let others = ["npm_config__authToken", "POETRY_HTTP_BASIC_X_USERNAME", "LD_PRELOAD", "ENV"];
        for name in kept.into_iter().chain(others).chain(["DATABASE_URL", "SALVE_KEEPER", "PATHS"])
        {
            assert!(!passes(OsStr::new(name), &listed), "{name}");
        }
    }
}
