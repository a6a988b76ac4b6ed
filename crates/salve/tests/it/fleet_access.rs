//! Who reaches a fleet: TLS, credentials, accounts, and fleets that share a server.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use nkeys::KeyPair;
use serde_json::{Value, json};

use crate::heal::Visit;
use crate::jobs::Works;
use crate::jobs_fleet::NatsServer;

/// Somebody who has a project and wants to reach a fleet.
struct FleetVisitor {
    works: Works,
    url: String,
    set: Vec<String>,
}

impl FleetVisitor {
    fn new(url: &str) -> Self {
        Self { works: Works::new(), url: url.to_owned(), set: Vec::new() }
    }

    fn with(mut self, key: &str, value: impl std::fmt::Display) -> Self {
        self.set.push(format!("fleet.{key}={value}"));
        self
    }

    fn salve(&self, args: &[&str]) -> Visit {
        let mut command = self.works.command(args);
        command.args(["--fleet", &self.url]);
        command.args(self.set.iter().flat_map(|set| ["--set", set]));
        Visit::of(&command.output().unwrap())
    }

    fn submits(&self) -> String {
        self.works.project.write("job.json", r#"{ "steps": [{ "command": "true" }] }"#);
        let visit = self.salve(&["submit", "job.json"]);
        assert_eq!(visit.code, Some(0), "{}", visit.said);
        visit.said.split_whitespace().next().unwrap_or_default().to_owned()
    }
}

fn pem(what: &str, bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", lines.join("\n"))
}

/// A key with the certificate of an authority of the test's own.
fn certificates(dir: &Path) -> PathBuf {
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let ca = authority.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let key = rcgen::KeyPair::generate().unwrap();
    let made = rcgen::CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    fs::write(dir.join("key.pem"), pem("PRIVATE KEY", &key.serialize_der())).unwrap();
    fs::write(dir.join("cert.pem"), pem("CERTIFICATE", made.der())).unwrap();
    fs::write(dir.join("ca.pem"), pem("CERTIFICATE", ca.der())).unwrap();
    dir.join("ca.pem")
}

/// **Invariant:** A server whose certificate is of nobody who is trusted is not spoken with.
#[test]
fn a_fleet_behind_tls_is_reached_with_its_authority_and_with_no_other() {
    let with_tls = |dir: &Path| {
        certificates(dir);
        let at = dir.display();
        format!("tls {{ cert_file: \"{at}/cert.pem\", key_file: \"{at}/key.pem\" }}\n")
    };
    let Some(server) = NatsServer::start_with(with_tls) else { return };
    let at = server.url.rsplit('/').next().unwrap();
    let url = format!("nats://{at}");
    let known = FleetVisitor::new(&url)
        .with("tls", true)
        .with("tls_ca", server.dir.path().join("ca.pem").display());
    let id = known.submits();
    assert!(known.salve(&["jobs"]).said.contains(&id));
    let stranger = FleetVisitor::new(&url).with("tls", true);
    stranger.salve(&["jobs"]).expect(1, &["no server of the fleet answers", "ertificate"]);
    let other = tempfile::tempdir().unwrap();
    let misled = FleetVisitor::new(&url).with("tls_ca", certificates(other.path()).display());
    misled.salve(&["jobs"]).expect(1, &["no server of the fleet answers", "ertificate"]);
    let missing = FleetVisitor::new(&url).with("tls_ca", "/nowhere/ca.pem");
    missing.salve(&["jobs"]).expect(1, &["cannot read /nowhere/ca.pem"]);
}

#[test]
fn a_fleet_that_has_to_have_tls_is_not_reached_without() {
    let Some(server) = NatsServer::start() else { return };
    let careful = FleetVisitor::new(&server.url).with("tls", true);
    careful.salve(&["jobs"]).expect(1, &["no server of the fleet answers"]);
    assert_eq!(FleetVisitor::new(&server.url).salve(&["jobs"]).code, Some(0));
}

/// Signs what an operator or an account says of somebody.
fn token(by: &KeyPair, about: &KeyPair, nats: Value) -> String {
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let (by_key, about_key) = (by.public_key(), about.public_key());
    let claims = json!({
        "jti": about_key, "iat": 1_700_000_000, "iss": by_key, "sub": about_key,
        "name": "test", "nats": nats,
    });
    let head = part(json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
    let text = format!("{head}.{}", part(claims));
    let seal = URL_SAFE_NO_PAD.encode(by.sign(text.as_bytes()).unwrap());
    format!("{text}.{seal}")
}

/// An operator with accounts, as a company has one.
struct Operator {
    pair: KeyPair,
    accounts: Vec<KeyPair>,
}

impl Operator {
    fn new(accounts: usize) -> Self {
        let accounts = (0..accounts).map(|_| KeyPair::new_account()).collect();
        Self { pair: KeyPair::new_operator(), accounts }
    }

    /// Returns what a server has to know; the last account is the system's own.
    fn config(&self) -> String {
        let operator = token(&self.pair, &self.pair, json!({ "type": "operator", "version": 2 }));
        let none = -1;
        let system = KeyPair::new_account();
        let limits = json!({
            "subs": none, "data": none, "payload": none, "imports": none, "exports": none,
            "wildcards": true, "conn": none, "leaf": none,
            "mem_storage": none, "disk_storage": none, "streams": none, "consumer": none,
        });
        let account = |pair: &KeyPair, limits: &Value| {
            let nats = json!({ "type": "account", "version": 2, "limits": limits });
            format!("{}: \"{}\"\n", pair.public_key(), token(&self.pair, pair, nats))
        };
        let plain = json!({
            "subs": none, "data": none, "payload": none, "imports": none, "exports": none,
            "wildcards": true, "conn": none, "leaf": none,
        });
        let known: String = self.accounts.iter().map(|pair| account(pair, &limits)).collect();
        let system_key = system.public_key();
        let known = known + &account(&system, &plain);
        format!(
            "operator: \"{operator}\"\nsystem_account: {system_key}\nresolver: MEMORY\n\
             resolver_preload: {{\n{known}}}\n"
        )
    }

    /// Writes the credentials of a user of an account.
    fn credentials(&self, account: usize, dir: &Path, name: &str) -> PathBuf {
        let (user, none) = (KeyPair::new_user(), -1);
        let nats = json!({
            "type": "user", "version": 2, "subs": none, "data": none, "payload": none,
            "pub": {}, "sub": {},
        });
        let token = token(&self.accounts[account], &user, nats);
        let seed = user.seed().unwrap();
        let path = dir.join(format!("{name}.creds"));
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        fs::write(&path, text).unwrap();
        path
    }
}

/// **Invariant:** What one account keeps, another one neither sees nor changes, whatever their fleets
/// are called.
#[test]
fn credentials_let_into_ones_own_account_and_wrong_ones_nowhere() {
    let operator = Operator::new(2);
    let Some(server) = NatsServer::start_with(|_| operator.config()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let creds = |account, name| operator.credentials(account, dir.path(), name);
    let member = |path: &Path| FleetVisitor::new(&server.url).with("credentials", path.display());
    let (ann, bea, cy) =
        (member(&creds(0, "ann")), member(&creds(0, "bea")), member(&creds(1, "cy")));
    let id = ann.submits();
    assert!(bea.salve(&["jobs"]).said.contains(&id), "they are of one account");
    let others = cy.salve(&["jobs"]);
    assert!(others.code == Some(0) && !others.said.contains(&id), "{}", others.said);
    assert_ne!(cy.salve(&["jobs", "remove", &id]).code, Some(0));
    assert!(ann.salve(&["jobs"]).said.contains(&id));
    let refused = ["does not let us in", "set `fleet.credentials` to the file you were given"];
    FleetVisitor::new(&server.url).salve(&["jobs"]).expect(1, &refused);
    let strange = Operator::new(1).credentials(0, dir.path(), "strange");
    member(&strange).salve(&["jobs"]).expect(1, &refused);
    let broken = dir.path().join("broken.creds");
    fs::write(&broken, "no credentials\n").unwrap();
    member(&broken).salve(&["jobs"]).expect(1, &["cannot read", "broken.creds"]);
    let missing = member(&dir.path().join("missing.creds")).salve(&["jobs"]);
    missing.expect(1, &["cannot read", "missing.creds"]);
}

#[test]
fn fleets_of_other_names_on_one_server_do_not_see_each_other() {
    let Some(server) = NatsServer::start() else { return };
    let named = |name: &str| FleetVisitor::new(&server.url).with("name", name);
    let (one, other) = (named("one"), named("other"));
    let id = one.submits();
    assert!(one.salve(&["jobs"]).said.contains(&id));
    assert!(!other.salve(&["jobs"]).said.contains(&id));
    let worked = other.salve(&["worker", "--until-empty"]);
    assert_eq!(worked.code, Some(0), "{}", worked.said);
    let listed = one.salve(&["jobs"]).said;
    assert!(listed.contains("queued"), "nobody of the other fleet took it: {listed}");
    named("no such name").salve(&["jobs"]).expect(2, &["`fleet.name` is wrong"]);
}
