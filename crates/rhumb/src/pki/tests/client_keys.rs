//! Tests of the client keys in kubeconfigs.

use super::*;

/// The fields of a user in a kubeconfig.
fn kubeconfig_field(text: &str, name: &str) -> String {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
    let bytes = STANDARD.decode(line.expect(name).trim()).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn client_keys_in_kubeconfigs_are_sec1() {
    let directory = PkiDirectory::new();
    let pki = directory.open(NOW);
    write_kubeconfigs(directory.0.path(), &pki, "https://localhost").unwrap();
    for (file, user) in [
        (ADMIN_KUBECONFIG, "admin"),
        ("controller-manager.kubeconfig", "controller-manager"),
        ("scheduler.kubeconfig", "scheduler"),
    ] {
        let text = fs::read_to_string(directory.0.path().join(file)).unwrap();
        let pem = kubeconfig_field(&text, "client-key-data:");
        assert!(
            pem.starts_with("-----BEGIN EC PRIVATE KEY-----\n"),
            "{user}"
        );
        // What openssl writes for the same key, byte for byte.
        let stored = directory.path(&format!("{user}.key"));
        let stored = stored.to_str().unwrap();
        assert_eq!(pem, openssl(&["ec", "-in", stored]), "{user}");
        // rustls accepts it with the certificate.
        let certificate = kubeconfig_field(&text, "client-certificate-data:");
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
        assert!(matches!(key, PrivateKeyDer::Sec1(_)));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_client_auth_cert(vec![certificate], key)
            .unwrap();
    }
}

#[test]
fn keys_of_other_curves_and_kinds_are_converted_or_kept() {
    let directory = PkiDirectory::new();
    directory.open(NOW);
    for (arguments, label) in [
        (["EC", "ec_paramgen_curve:P-384"], "EC PRIVATE KEY"),
        (["RSA", "rsa_keygen_bits:2048"], "PRIVATE KEY"),
    ] {
        let [algorithm, option] = arguments;
        let key = openssl(&["genpkey", "-algorithm", algorithm, "-pkeyopt", option]);
        fs::remove_file(directory.path("admin.crt")).unwrap();
        fs::write(directory.path("admin.key"), &key).unwrap();
        let pem = directory.open(NOW).admin.client_key_pem();
        assert!(
            pem.starts_with(&format!("-----BEGIN {label}-----\n")),
            "{pem}"
        );
        let file = directory.path("converted.key");
        fs::write(&file, &pem).unwrap();
        let public = |file: &Path| openssl(&["pkey", "-pubout", "-in", file.to_str().unwrap()]);
        assert_eq!(public(&file), public(&directory.path("admin.key")));
    }
}
