//! Keys that sign: minisign's.

use std::fs::File;
use std::io::{self, Cursor, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use minisign::{KeyPair, SecretKey, SecretKeyBox};

use crate::envelope;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file does not have a key, or the password is wrong.
    #[error("{}: {reason}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What minisign says.
        reason: String,
    },
    /// Signing has failed.
    #[error("cannot sign: {0}")]
    Sign(String),
}

/// A key that signs.
pub struct Signer {
    secret: SecretKey,
    public: minisign_verify::PublicKey,
}

/// The longest key file.
const LONGEST: u64 = 16 << 10;

impl Signer {
    /// Reads the key in this file. `password` is called only if the key is encrypted; what it
    /// does not know is asked for on the terminal.
    pub fn read(
        path: &Path,
        password: impl FnOnce() -> io::Result<Option<String>>,
    ) -> Result<Signer, KeyError> {
        let file = |source| KeyError::File { path: path.to_owned(), source };
        let key =
            |reason: minisign::PError| KeyError::Key { path: path.to_owned(), reason: reason.to_string() };
        let text = read_to_string(path).map_err(file)?;
        let boxed = || SecretKeyBox::from_string(&text).map_err(key);
        let secret = match boxed()?.into_unencrypted_secret_key() {
            Ok(secret) => secret,
            Err(_) => boxed()?.into_secret_key(password().map_err(file)?).map_err(key)?,
        };
        Signer::of(secret).map_err(|reason| KeyError::Key { path: path.to_owned(), reason })
    }

    fn of(secret: SecretKey) -> Result<Signer, String> {
        let public = minisign::PublicKey::from_secret_key(&secret).map_err(|error| error.to_string())?;
        let public = minisign_verify::PublicKey::from_base64(&public.to_base64());
        Ok(Signer { secret, public: public.map_err(|error| error.to_string())? })
    }

    /// The key that verifies.
    pub fn public(&self) -> &minisign_verify::PublicKey {
        &self.public
    }

    /// Signed text.
    pub fn sign(&self, body: &[u8]) -> Result<Vec<u8>, KeyError> {
        let failed = |error: minisign::PError| KeyError::Sign(error.to_string());
        let (trusted, untrusted) = (Some("vkstash"), Some("signed by vkstash-remote"));
        let signature =
            minisign::sign(None, &self.secret, Cursor::new(body), trusted, untrusted).map_err(failed)?;
        Ok(envelope::encode(&signature.into_string(), body))
    }

    /// A new key, which is in no file.
    pub fn generate() -> Result<Signer, KeyError> {
        let failed = |error: minisign::PError| KeyError::Sign(error.to_string());
        let pair = KeyPair::generate_unencrypted_keypair().map_err(failed)?;
        Signer::of(pair.sk).map_err(KeyError::Sign)
    }
}

/// Writes a new key pair, with a password if there is to be one (asked for on the terminal if it is not known): the
/// secret key to `path`, which must not exist, and the public key beside it. Returns the public key in minisign's short
/// form.
pub fn create(path: &Path, password: Option<&Option<String>>) -> Result<String, KeyError> {
    let failed = |error: minisign::PError| KeyError::Sign(error.to_string());
    let pair = match password {
        Some(password) => KeyPair::generate_encrypted_keypair(password.clone()),
        None => KeyPair::generate_unencrypted_keypair(),
    };
    let pair = pair.map_err(failed)?;
    let secret = pair.sk.to_box(Some("vkstash-remote secret key")).map_err(failed)?.into_string();
    let public = pair.pk.to_box().map_err(failed)?.into_string();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".pub");
    write(path, 0o600, &secret)?;
    if let Err(error) = write(&path.with_file_name(name), 0o644, &public) {
        // Half a pair would stand in the way of the next attempt.
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    Ok(pair.pk.to_base64())
}

fn write(path: &Path, mode: u32, text: &str) -> Result<(), KeyError> {
    let failed = |source| KeyError::File { path: path.to_owned(), source };
    let mut file = File::options().write(true).create_new(true).mode(mode).open(path).map_err(failed)?;
    let written = file.write_all(text.as_bytes()).map_err(failed);
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written
}

fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    io::Read::read_to_string(&mut io::Read::take(File::open(path)?, LONGEST), &mut text)?;
    Ok(text)
}
