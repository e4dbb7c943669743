use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rhumb_auth::token::{
    ServiceAccountTokenGetter, TokenIssueParams, TokenIssuer, TokenObjectKind, TokenObjectRef,
    TokenObjectState, TokenVerifier, TokenVerifyError, VerifyingKey,
};
use tempfile::TempDir;

use super::*;

mod client_keys;

const NOW: Timestamp = Timestamp::from_unix(1_800_000_000, 0);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn names() -> ServerCertificateNames {
    ServerCertificateNames::new("10.0.0.1".parse().unwrap())
}

fn after(days: u32) -> Timestamp {
    NOW.saturating_add(DAY * days)
}

#[test]
fn the_host_name_has_no_whitespace() {
    let name = host_name().expect("Linux has one");
    assert!(
        !name.is_empty() && !name.contains(char::is_whitespace),
        "{name:?}"
    );
}

struct PkiDirectory(TempDir);

impl PkiDirectory {
    fn new() -> Self {
        PkiDirectory(tempfile::tempdir().unwrap())
    }

    fn open_with(&self, names: &ServerCertificateNames, now: Timestamp) -> Result<ClusterPki> {
        open(self.0.path(), names, now)
    }

    fn open(&self, now: Timestamp) -> ClusterPki {
        self.open_with(&names(), now).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("pki").join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// All files with their content.
    fn contents(&self) -> Vec<(String, String)> {
        let entries = fs::read_dir(self.path("")).unwrap();
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        let mut names: Vec<String> = entries.map(|entry| name(entry.unwrap())).collect();
        names.sort();
        names
            .into_iter()
            .map(|name| (name.clone(), self.text(&name)))
            .collect()
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).unwrap().permissions().mode() & 0o777
    }

    /// The error message of `open`, without the directory.
    fn error(&self, now: Timestamp) -> String {
        let error = format!("{:#}", self.open_with(&names(), now).unwrap_err());
        assert!(!error.contains('\n'), "{error}");
        error.replace(&format!("{}/pki/", self.0.path().display()), "")
    }
}

#[test]
fn existing_files_are_kept() {
    let directory = PkiDirectory::new();
    directory.open(NOW);
    let contents = directory.contents();
    let files: Vec<&str> = contents.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        files,
        [
            "admin.crt",
            "admin.key",
            "apiserver.crt",
            "apiserver.key",
            "ca.crt",
            "ca.key",
            "controller-manager.crt",
            "controller-manager.key",
            "sa.key",
            "sa.pub",
            "scheduler.crt",
            "scheduler.key",
        ]
    );
    directory.open(after(300));
    assert_eq!(directory.contents(), contents);
    for name in [
        "admin.key",
        "apiserver.key",
        "ca.key",
        "controller-manager.key",
        "sa.key",
    ] {
        assert_eq!(directory.mode(name), 0o600, "{name}");
    }
    assert_eq!(directory.mode(""), 0o700);
}

#[test]
fn certificates_are_renewed_with_their_keys_before_they_expire() {
    let directory = PkiDirectory::new();
    directory.open(NOW);
    let before = directory.contents();
    directory.open(after(334));
    assert_eq!(directory.contents(), before, "31 days before");
    directory.open(after(335));
    let changed: Vec<String> = directory
        .contents()
        .into_iter()
        .filter(|it| !before.contains(it))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        changed,
        [
            "admin.crt",
            "apiserver.crt",
            "controller-manager.crt",
            "scheduler.crt"
        ]
    );
    directory.open(after(3000));
}

#[test]
fn a_new_server_name_renews_the_certificate() {
    let directory = PkiDirectory::new();
    directory.open(NOW);
    let before = directory.text("apiserver.crt");
    let mut more = names();
    more.add_address("0.0.0.0".parse().unwrap());
    more.add_host("Not a name!");
    assert_eq!(more, names());
    more.add_address("192.0.2.7".parse().unwrap());
    more.add_host("Example.com");
    directory.open_with(&more, NOW).unwrap();
    let after = directory.text("apiserver.crt");
    assert_ne!(after, before);
    directory.open(NOW);
    assert_eq!(
        directory.text("apiserver.crt"),
        after,
        "fewer names do not renew the certificate"
    );
}

#[test]
fn files_missing_after_a_crash_are_created() {
    let directory = PkiDirectory::new();
    directory.open(NOW);
    let key = directory.text("apiserver.key");
    fs::remove_file(directory.path("apiserver.crt")).unwrap();
    fs::write(directory.path("apiserver.crt.new"), "half").unwrap();
    directory.open(NOW);
    assert_eq!(directory.text("apiserver.key"), key);
    assert!(!directory.path("apiserver.crt.new").exists());
    fs::remove_file(directory.path("ca.crt")).unwrap();
    let ca_key = directory.text("ca.key");
    directory.open(NOW);
    assert_eq!(directory.text("ca.key"), ca_key);
}

#[test]
fn errors_name_the_broken_file_and_the_remedy() {
    let ca = "bring back a good file, or remove ca.crt and ca.key and all that they signed, \
        after which all clients need new credentials";
    let leaf = "remove it and its key to have new ones made";
    let other = PkiDirectory::new();
    other.open(NOW);
    let foreign = |name: &str| Some(other.text(name));
    let noise = || Some("noise".to_owned());
    let cases = [
        (
            "ca.crt",
            noise(),
            format!("ca.crt: is no certificate in PEM; {ca}"),
        ),
        (
            "ca.key",
            noise(),
            format!("ca.key: is no private key in PKCS#8 PEM; {ca}"),
        ),
        (
            "ca.key",
            None,
            format!("ca.key: is missing, while ca.crt is there; {ca}"),
        ),
        (
            "ca.key",
            foreign("ca.key"),
            format!("ca.crt: is the certificate of another key; {ca}"),
        ),
        (
            "admin.key",
            None,
            format!("admin.key: is missing, while admin.crt is there; {leaf}"),
        ),
        (
            "admin.key",
            foreign("admin.key"),
            format!("admin.crt: is the certificate of another key; {leaf}"),
        ),
        (
            "apiserver.crt",
            noise(),
            format!("apiserver.crt: is no certificate in PEM; {leaf}"),
        ),
        (
            "sa.key",
            noise(),
            "sa.key: bring back a good file, or remove it to have a new one made, which ends all \
                tokens of service accounts: no private key in PEM: no items found"
                .to_owned(),
        ),
    ];
    for (name, text, want) in cases {
        let directory = PkiDirectory::new();
        directory.open(NOW);
        match text {
            Some(text) => fs::write(directory.path(name), text).unwrap(),
            None => fs::remove_file(directory.path(name)).unwrap(),
        }
        assert_eq!(directory.error(NOW), want);
    }

    let directory = PkiDirectory::new();
    directory.open(NOW);
    for name in ["ca.crt", "ca.key"] {
        fs::write(directory.path(name), other.text(name)).unwrap();
    }
    assert_eq!(
        directory.error(NOW),
        format!("apiserver.crt: is not signed by ca.crt; {leaf}")
    );
    for name in ["ca.crt", "ca.key"] {
        fs::write(
            directory.path(name),
            directory.text(&name.replace("ca", "admin")),
        )
        .unwrap();
    }
    assert_eq!(
        directory.error(NOW),
        format!("ca.crt: is not the certificate of an authority; {ca}")
    );
    assert_eq!(
        other.error(after(3651)),
        format!("ca.crt: expired at 2037-01-12T08:00:00Z; {ca}")
    );
}

fn openssl(arguments: &[&str]) -> String {
    let program = std::env::var_os("RHUMB_TEST_OPENSSL").unwrap_or_else(|| "openssl".into());
    let output = Command::new(program)
        .args(arguments)
        .output()
        .expect("openssl");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[test]
fn openssl_accepts_the_chains() {
    let directory = PkiDirectory::new();
    directory.open(NOW);
    let file = |name: &str| directory.path(name).to_str().unwrap().to_owned();
    let time = NOW.unix_seconds().to_string();
    let verify = |purpose: &str, more: &[&str], certificate: &str| {
        let ca = file("ca.crt");
        let mut arguments = vec!["verify", "-x509_strict", "-attime", &time, "-CAfile", &ca];
        arguments.extend(["-purpose", purpose]);
        arguments.extend(more);
        let certificate = file(certificate);
        arguments.push(&certificate);
        openssl(&arguments)
    };
    for host in ["localhost", "kubernetes.default.svc.cluster.local"] {
        verify("sslserver", &["-verify_hostname", host], "apiserver.crt");
    }
    for address in ["127.0.0.1", "::1", "10.0.0.1"] {
        verify("sslserver", &["-verify_ip", address], "apiserver.crt");
    }
    verify("sslclient", &[], "admin.crt");
    let subject = openssl(&[
        "x509",
        "-noout",
        "-subject",
        "-nameopt",
        "RFC2253",
        "-in",
        &file("admin.crt"),
    ]);
    assert!(
        subject.contains("CN=kubernetes-admin") && subject.contains("O=system:masters"),
        "{subject}"
    );
    let public = openssl(&["pkey", "-in", &file("sa.key"), "-pubout"]);
    assert_eq!(
        public.trim(),
        directory.text("sa.pub").replace("\r\n", "\n").trim()
    );
}

#[test]
fn certificates_and_keys_match_the_files() {
    let directory = PkiDirectory::new();
    let pki = directory.open(NOW);
    let file = |name: &str| CertificateDer::from_pem_file(directory.path(name)).unwrap();
    assert_eq!(pki.ca, file("ca.crt"));
    assert_eq!(pki.serving.certificate, file("apiserver.crt"));
    let key = PrivateKeyDer::from_pem_file(directory.path("apiserver.key")).unwrap();
    assert_eq!(pki.serving.key(), key);
}

#[derive(Debug)]
struct EmptyAccountSource;

impl ServiceAccountTokenGetter for EmptyAccountSource {
    fn look_up(&self, _: TokenObjectKind, _: &str, _: &str) -> Option<TokenObjectState> {
        None
    }
}

#[test]
fn keys_in_openssl_formats_sign_tokens() {
    let directory = PkiDirectory::new();
    let file = |name: &str| directory.path(name).to_str().unwrap().to_owned();
    let own = directory.open(NOW).service_account_key;
    assert_eq!(own.public().algorithm(), "ES256");
    for arguments in [
        ["pkey", "-in", &file("sa.key")].as_slice(),
        &["genrsa", "-traditional"],
        &["genrsa", "3072"],
    ] {
        fs::write(directory.path("sa.key"), openssl(arguments)).unwrap();
        let key = directory.open(NOW).service_account_key;

        // The key id is the digest of the public key in openssl's DER encoding.
        let (public, digest) = (file("public.der"), file("digest"));
        openssl(&[
            "pkey",
            "-in",
            &file("sa.key"),
            "-pubout",
            "-outform",
            "DER",
            "-out",
            &public,
        ]);
        openssl(&["dgst", "-sha256", "-binary", "-out", &digest, &public]);
        let id = URL_SAFE_NO_PAD.encode(fs::read(&digest).unwrap());
        assert_eq!(key.public().id(), id, "{arguments:?}");
        let read = VerifyingKey::from_spki(&fs::read(&public).unwrap()).unwrap();
        assert_eq!(&read, key.public());

        let audiences = vec!["api".to_owned()];
        let issuer = TokenIssuer::new("https://x", audiences.clone(), key);
        let request = TokenIssueParams {
            namespace: "default",
            account: TokenObjectRef::new("bot", "u1"),
            audiences: Vec::new(),
            expiration_seconds: 3600,
            bound: None,
        };
        let token = issuer.issue(request, NOW).unwrap().token;
        let verifier = TokenVerifier::new(
            "https://x",
            audiences,
            vec![read],
            Arc::new(EmptyAccountSource),
        );
        let published = &verifier.key_set()["keys"][0];
        assert_eq!(published["kid"], id.as_str());
        if published["kty"] == "RSA" {
            assert_eq!(published["e"], "AQAB", "65537, as openssl makes them");
            let modulus = URL_SAFE_NO_PAD
                .decode(published["n"].as_str().unwrap())
                .unwrap();
            let shown = openssl(&["rsa", "-in", &file("sa.key"), "-noout", "-modulus"]);
            let hex: String = modulus.iter().map(|byte| format!("{byte:02X}")).collect();
            assert_eq!(shown.trim(), format!("Modulus={hex}"));
        }
        // The signature is valid, so the error is about the missing account.
        let missing = TokenVerifyError::NoAccount("bot".to_owned());
        assert_eq!(
            verifier.verify(&token, &[], NOW),
            Err(missing),
            "{arguments:?}"
        );
        let (signed, _) = token.rsplit_once('.').unwrap();
        let forged = format!("{signed}.{}", URL_SAFE_NO_PAD.encode([7; 64]));
        assert_eq!(
            verifier.verify(&forged, &[], NOW),
            Err(TokenVerifyError::Signature)
        );
    }
}

#[test]
fn kubeconfig_is_complete_for_kubectl() {
    let directory = PkiDirectory::new();
    let pki = directory.open(NOW);
    let path = directory.0.path().join("admin.kubeconfig");
    write_kubeconfigs(directory.0.path(), &pki, "https://127.0.0.1:6443").unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("\n    server: \"https://127.0.0.1:6443\"\n"),
        "{text}"
    );
    for (field, file) in [
        ("certificate-authority-data", "ca.crt"),
        ("client-certificate-data", "admin.crt"),
    ] {
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(&format!("{field}: ")));
        let data = STANDARD.decode(line.unwrap()).unwrap();
        assert_eq!(
            String::from_utf8(data).unwrap(),
            directory.text(file),
            "{field}"
        );
    }
    assert!(text.contains("\n    client-key-data: "), "{text}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    let written = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let before = written(&path);
    write_kubeconfigs(directory.0.path(), &pki, "https://127.0.0.1:6443").unwrap();
    assert_eq!(written(&path), before);
}

#[test]
fn debug_output_contains_no_key() {
    let pki = PkiDirectory::new().open(NOW);
    let shown = format!("{pki:?} {:?}", pki.serving);
    assert!(shown.len() < 120 && !shown.contains("PRIVATE"), "{shown}");
}
