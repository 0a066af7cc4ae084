//! The names of files in an archive, and tar's ways of storing long ones.

use std::io::{self, Read};

use tar::{Entry, EntryType, PaxExtensions};

use vkstash_model::app_name::AppName;
use vkstash_store::stash::transfer::{Place, age_of};

/// Bytes of a tar extension that are read; longer than any name of a segment.
const LONGEST_EXTENSION: u64 = 64 << 10;

/// Where a segment stands below a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) application: AppName,
    pub(super) place: Place,
    /// Age of the file by its name, in Unix milliseconds; 0 where no writer makes such a name.
    pub(super) age: u64,
}

impl Name {
    /// Parses a path in an archive, of which only the last three components count; `None`: not a segment.
    pub(super) fn of(path: &[u8]) -> Option<Name> {
        let path = std::str::from_utf8(path).ok()?;
        let mut components = path.rsplit('/');
        let (file, part, application) = (components.next()?, components.next()?, components.next()?);
        let is_segment = file.ends_with(".vks") && !file.starts_with('.');
        let application = AppName::of_folder(application).filter(|_| is_segment)?;
        Some(Name { application, place: Place::of_folder(part)?, age: age_of(file) })
    }
}

/// A name too long for the header of the entry that it belongs to.
#[derive(Default)]
pub(super) struct LongName(Option<Vec<u8>>);

impl LongName {
    /// Reads an entry that holds the name of the next one; false: the entry is something else.
    ///
    /// Done here because the tar crate would hold an extension of any length in memory.
    pub(super) fn takes(&mut self, entry: &mut Entry<'_, impl Read>) -> io::Result<bool> {
        let kind = entry.header().entry_type();
        if !matches!(kind, EntryType::GNULongName | EntryType::XHeader) {
            return Ok(matches!(kind, EntryType::GNULongLink | EntryType::XGlobalHeader));
        }
        let mut bytes = Vec::new();
        entry.by_ref().take(LONGEST_EXTENSION).read_to_end(&mut bytes)?;
        let name = if kind == EntryType::GNULongName {
            Some(bytes.strip_suffix(b"\0").unwrap_or(&bytes))
        } else {
            let extensions = PaxExtensions::new(&bytes).filter_map(Result::ok);
            extensions
                .filter(|extension| extension.key_bytes() == b"path")
                .last()
                .map(|path| path.value_bytes())
        };
        self.0 = name.map(<[u8]>::to_vec).or(self.0.take());
        Ok(true)
    }

    /// The path of an entry.
    pub(super) fn or_of(&mut self, entry: &Entry<'_, impl Read>) -> Vec<u8> {
        self.0.take().unwrap_or_else(|| entry.path_bytes().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_segments_of_applications_have_names() {
        let good = "game-01234567-89abcdef/portable/0000019aa0b0c0d0-00000001-0123456789abcdef.vks";
        let name = Name::of(good.as_bytes()).unwrap();
        assert_eq!(
            (name.application.folder.as_str(), name.place),
            ("game-01234567-89abcdef", Place::Portable)
        );
        assert_eq!(name.age, 0x0000_019a_a0b0_c0d0);
        let device = "./vkstash/a-b.c-01234567-89abcdef/device-00112233445566ff/x.vks";
        let name = Name::of(device.as_bytes()).unwrap();
        assert_eq!(name.application.display, "a-b.c");
        assert_eq!(name.place, Place::Device("00112233445566ff".into()));
        for bad in [
            "",
            "portable/x.vks",
            "game/portable/x.vks",
            "game-01234567-89abcdef/portable/x.vkg",
            "game-01234567-89abcdef/portable/.tmp-x.vks",
            "game-01234567-89abcdef/runs/x.vks",
            "game-01234567-89abcdef/device-0011/x.vks",
            "game-01234567-89abcdef/device-0011223344556FFF/x.vks",
            "game-01234567-89ABCDEF/portable/x.vks",
            ".game-01234567-89abcdef/portable/x.vks",
            "..-01234567-89abcdef/portable/x.vks",
            "-01234567-89abcdef/portable/x.vks",
            "ga me-01234567-89abcdef/portable/x.vks",
            "game-01234567-89abcdef/portable/",
        ] {
            assert_eq!(Name::of(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(Name::of(b"\xff-01234567-89abcdef/portable/x.vks"), None);
    }
}
