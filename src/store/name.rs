//! From what a program calls itself to the name of a folder.

/// The name of an application's stash: a sanitised part for people and a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppName {
    /// What people read: the application's name with everything odd replaced.
    pub display: String,
    /// The folder: a sanitised name, a hyphen and 16 hexadecimal digits.
    pub folder: String,
}

impl AppName {
    /// From VkApplicationInfo::pApplicationName and what the process was started as. All of it is input:
    /// any bytes may arrive.
    pub fn new(_application: Option<&[u8]>, _executable: &[u8], _command_line: &[Vec<u8>]) -> AppName {
        unimplemented!()
    }

    /// Of this process.
    pub fn of_process(_application: Option<&[u8]>) -> AppName {
        unimplemented!()
    }
}
