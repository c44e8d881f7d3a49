//! The sockets that processes with Kineto send to, and who sent.
#![cfg(target_os = "linux")]

use std::io::{Error, ErrorKind, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, bind, recvmsg, sendto, socket_with, sockopt,
};

/// The name that Kineto sends to, in a folder or for the whole machine.
pub const NAME: &str = "dynolog";
/// Longer than any message of the protocol.
const LONGEST: usize = 16 << 10;

/// A datagram with its sender.
#[derive(Debug)]
pub struct Received {
    pub bytes: Vec<u8>,
    pub pid: u32,
    from: SocketAddrUnix,
    /// Which socket it came by.
    by: usize,
}

/// The sockets; dropping them removes their folder.
#[derive(Debug)]
pub struct Sockets {
    folder: PathBuf,
    /// That in the folder, and that of the machine where it was free.
    open: Vec<OwnedFd>,
}

impl Sockets {
    /// Opens them, in a new private folder and as a name of the machine.
    ///
    /// Errors: the folder belongs to someone else, or cannot be made.
    pub fn open(folder: &Path, name: &str) -> Result<Self> {
        remove(folder)?;
        std::fs::DirBuilder::new().mode(0o700).create(folder)?;
        let mut sockets = Self { folder: folder.to_owned(), open: Vec::new() };
        sockets.open.push(bound(&SocketAddrUnix::new(folder.join(NAME))?)?);
        // Kineto counts the zero at the end among the bytes of the name.
        let of_machine = SocketAddrUnix::new_abstract_name(format!("{name}\0").as_bytes())?;
        sockets.open.extend(bound(&of_machine).ok());
        Ok(sockets)
    }

    /// Whether another daemon has the name of the machine.
    pub fn is_name_taken(&self) -> bool {
        self.open.len() < 2
    }

    /// The next datagram of a process of this user, waited for until `timeout`.
    ///
    /// Errors: the sockets are broken.
    pub fn receive(&self, timeout: &Timespec) -> Result<Option<Received>> {
        let mut polled: Vec<PollFd<'_>> = self.open.iter().map(|open| PollFd::new(open, PollFlags::IN)).collect();
        match poll(&mut polled, Some(timeout)) {
            Err(rustix::io::Errno::INTR) | Ok(0) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        let Some(by) = polled.iter().position(|polled| !polled.revents().is_empty()) else { return Ok(None) };
        let mut bytes = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4), ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let got = match recvmsg(self.open[by].as_fd(), &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            got => got?,
        };
        let sender = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(sender) => Some(sender),
            _ => None,
        });
        let Some(sender) = sender.filter(|sender| sender.uid == rustix::process::getuid()) else { return Ok(None) };
        let from = got.address.and_then(|address| SocketAddrUnix::try_from(address).ok());
        let Some(from) = from else { return Ok(None) };
        bytes.truncate(got.bytes);
        Ok(Some(Received { bytes, pid: sender.pid.as_raw_nonzero().get().unsigned_abs(), from, by }))
    }

    /// Sends an answer; a process that has gone gets none.
    pub fn answer(&self, to: &Received, bytes: &[u8]) {
        _ = sendto(self.open[to.by].as_fd(), bytes, SendFlags::DONTWAIT, &to.from);
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        _ = remove(&self.folder);
    }
}

/// Removes the folder that a run had for its sockets.
///
/// Errors: it is not a private folder of this user's.
pub fn remove(folder: &Path) -> Result<()> {
    match std::fs::symlink_metadata(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(data) => {
            let is_own = data.uid() == rustix::process::getuid().as_raw();
            if !(data.is_dir() && is_own && data.permissions().mode() & 0o077 == 0) {
                return Err(Error::new(ErrorKind::AlreadyExists, "the place for Kineto's sockets is someone else's"));
            }
            std::fs::remove_dir_all(folder)
        }
    }
}

fn bound(address: &SocketAddrUnix) -> Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_passcred(&socket, true)?;
    bind(&socket, address)?;
    Ok(socket)
}
