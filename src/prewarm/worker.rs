//! The conversation with the parent: one line for each request, and one or more for each answer (docs/prewarm.md).
//!
//! | request | answer |
//! |---|---|
//! | `devices` | `device INDEX VENDOR DEVICE TYPE NAME` for each physical device, then `end` |
//! | `configurations` | `configuration DIGEST FEATURES` for each recorded device, the earliest first, then `end` |
//! | `open INDEX DIGEST` | `opened HEADER`: a device like that recorded one, and its device header; or `cannot REASON`
//! |
//! | `make KEY` | `start KEY`; then `made`, `there`, `unrecorded` or `cannot`, each with the key, and the reason |
//! | `remake KEY` | as `make`, but an artifact that the driver does not take does not count as `there` |
//! | `check KEY` | `start KEY`; then `served`, `missed` or `cannot` |
//!
//! Numbers are decimal, everything else is hexadecimal. A device is closed by the next `open` and by the end of the
//! input.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::fd::FromRawFd as _;
use std::sync::Arc;

use ash::vk;

use super::pipelines::{Pipelines, RecipeOutcome};
use super::program::{Loader, Program, ProgramError};
use crate::config::Config;
use crate::state::process::session::Session;
use vkstash_host::guard::guard;
use vkstash_host::signals;
use vkstash_host::text::hex;
use vkstash_model::record::{Key, Kind};
use vkstash_model::{check, key};
use vkstash_recipe::application::Application;
use vkstash_recipe::device_configuration::DeviceConfiguration;

/// Serves the parent until the input ends. 0: it ended in order.
///
/// # Safety
/// `input` and `output` are open descriptors that belong to this call from now on.
pub unsafe fn run(input: libc::c_int, output: libc::c_int) -> libc::c_int {
    // SAFETY: `input` and `output` are open, belong to this call alone, and are closed once, by these files.
    let (input, output) = unsafe { (File::from_raw_fd(input), File::from_raw_fd(output)) };
    let config = Config::from_environment();
    if config.application.is_none() {
        return 2;
    }
    let session = Session::open(&config, &[], None);
    let mut worker = Worker { loader: None, session, open: None, output };
    for line in BufReader::new(input).lines() {
        let Ok(line) = line else { break };
        if worker.answer(&line).is_none() {
            // The tool does not read the answers any more.
            return 1;
        }
    }
    0
}

struct Worker {
    // Before the session: the device's parts of the stash are closed first.
    open: Option<Pipelines>,
    loader: Option<Loader>,
    session: Arc<Session>,
    output: File,
}

impl Worker {
    /// None: the answer cannot be written.
    fn answer(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let (request, first, second) = (words.next().unwrap_or_default(), words.next(), words.next());
        match (request, first.and_then(from_hex), second.and_then(from_hex)) {
            ("devices", ..) => self.devices(),
            ("configurations", ..) => self.configurations(),
            ("open", _, Some(digest)) => {
                let index = first.and_then(|index| index.parse().ok()).unwrap_or(usize::MAX);
                self.open(index, &digest)
            }
            ("make" | "remake", Some(key), _) => {
                self.say(&format!("start {}", hex(&key)))?;
                let again = request == "remake";
                let made = guard("prewarm", || self.make(&key, again), || Err(text("internal failure")));
                match made {
                    Ok(made) => self.say(&format!("{made} {}", hex(&key))),
                    Err(reason) => self.say(&format!("cannot {} {reason}", hex(&key))),
                }
            }
            ("check", Some(key), _) => {
                self.say(&format!("start {}", hex(&key)))?;
                let checked = guard("prewarm", || self.check(&key), || Err(text("internal failure")));
                match checked {
                    Ok(true) => self.say(&format!("served {}", hex(&key))),
                    Ok(false) => self.say(&format!("missed {}", hex(&key))),
                    Err(reason) => self.say(&format!("cannot {} {reason}", hex(&key))),
                }
            }
            _ => self.say("cannot unknown request"),
        }
    }

    /// Writes one line.
    fn say(&self, line: &str) -> Option<()> {
        let line = format!("{line}\n");
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            match signals::write(&self.output, rest) {
                Ok(written) => rest = rest.get(written..)?,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        Some(())
    }

    /// The recorded devices, the earliest first.
    fn recorded(&self) -> Vec<(Key, DeviceConfiguration)> {
        let mut found = Vec::new();
        let Some(stash) = self.session.stash() else { return found };
        stash.portable().for_each(Kind::DeviceConfiguration, &mut |digest, record| {
            let decoded = key::decode::<DeviceConfiguration>(record).ok();
            if let Some(configuration) =
                decoded.filter(|_| check::is_true(Kind::DeviceConfiguration, digest, record))
            {
                found.push((*digest, configuration));
            }
        });
        found
    }

    fn loader(&mut self) -> Result<&Loader, ProgramError> {
        if self.loader.is_none() {
            self.loader = Some(Loader::open()?);
        }
        self.loader.as_ref().ok_or(ProgramError::NoLoader)
    }

    fn devices(&mut self) -> Option<()> {
        // As the newest program sees them: Vulkan 1.0 cannot see every device.
        let application = self.recorded().pop().map_or(
            Application { api_version: vk::API_VERSION_1_0, ..Application::default() },
            |(_, configuration)| configuration.application,
        );
        let listed = guard(
            "prewarm",
            || self.loader().and_then(|loader| loader.instance(&application, false)?.devices()).map_err(text),
            || Err(text("internal failure")),
        );
        match listed {
            Ok(listed) => {
                for (index, (_, properties)) in listed.iter().enumerate() {
                    let name = properties.device_name_as_c_str().map(|name| name.to_string_lossy());
                    self.say(&format!(
                        "device {index} {} {} {} {}",
                        properties.vendor_id,
                        properties.device_id,
                        properties.device_type.as_raw(),
                        text(name.unwrap_or_default()),
                    ))?;
                }
                self.say("end")
            }
            Err(reason) => self.say(&format!("cannot {reason}")),
        }
    }

    fn configurations(&mut self) -> Option<()> {
        for (digest, configuration) in self.recorded() {
            if let Ok(features) = configuration.features_digest() {
                self.say(&format!("configuration {} {}", hex(&digest), hex(&features)))?;
            }
        }
        self.say("end")
    }

    fn open(&mut self, index: usize, digest: &Key) -> Option<()> {
        self.open = None;
        let recorded = self.recorded().into_iter().find(|(known, _)| known == digest);
        let Some((_, recorded)) = recorded else { return self.say("cannot the stash has no such device") };
        let opened = guard(
            "prewarm",
            || self.loader().and_then(|loader| Program::open(loader, &recorded, index)).map_err(text),
            || Err(text("internal failure")),
        );
        match opened {
            Ok(program) => {
                let header = program.layer().header();
                self.open = Some(Pipelines::new(program));
                match header {
                    Some(header) => self.say(&format!("opened {}", hex(&header.encode()))),
                    None => self.say("cannot describe the device"),
                }
            }
            Err(reason) => self.say(&format!("cannot {reason}")),
        }
    }

    fn pipelines(&mut self) -> Result<&mut Pipelines, String> {
        self.open.as_mut().ok_or_else(|| text("no device is open"))
    }

    fn make(&mut self, key: &Key, again: bool) -> Result<&'static str, String> {
        let pipelines = self.pipelines()?;
        let made = pipelines.make(key, again);
        pipelines.forget_some();
        match made {
            Ok(RecipeOutcome::Recorded) => Ok("made"),
            Ok(RecipeOutcome::There) => Ok("there"),
            Ok(RecipeOutcome::Unrecorded) => Ok("unrecorded"),
            Err(error) => Err(text(error)),
        }
    }

    fn check(&mut self, key: &Key) -> Result<bool, String> {
        let pipelines = self.pipelines()?;
        let served = pipelines.check(key);
        pipelines.forget_some();
        served.map_err(text)
    }
}

/// The text on one line, which an answer must be.
fn text(said: impl Display) -> String {
    said.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn from_hex(digits: &str) -> Option<Key> {
    let mut key = [0; 32];
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}
