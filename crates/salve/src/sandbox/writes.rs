//! Keeps writes, connections and signals within bounds, by the kernel's Landlock.
//!
//! The rules bind the thread that sets them and every process it starts from then on; they cannot
//! be taken back.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

/// Where writing stays allowed; everywhere else the kernel refuses it.
///
/// The kernel's rules only allow, and an allowed directory is allowed with all below it.
#[derive(Debug)]
pub(crate) struct Writes {
    places: Vec<PathBuf>,
    reach: TcpReach,
    is_alone: bool,
}

/// What can be reached by TCP.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TcpReach {
    Everything,
    /// These ports, wherever they are.
    Ports(Vec<u16>),
    Nothing,
}

impl Default for Writes {
    fn default() -> Self {
        Self { places: Vec::new(), reach: TcpReach::Everything, is_alone: false }
    }
}

impl Writes {
    /// Allows a file, or a directory with all below it; what is not there cannot be written to
    /// either.
    pub(crate) fn allow(mut self, place: impl Into<PathBuf>) -> Self {
        self.places.push(place.into());
        self
    }

    /// Says what can be reached by TCP, where the kernel knows such rules.
    pub(super) fn reach(mut self, reach: TcpReach) -> Self {
        self.reach = reach;
        self
    }

    /// Forbids signals to processes outside, where the kernel knows such rules.
    pub(super) fn alone(mut self) -> Self {
        self.is_alone = true;
        self
    }

    /// Takes from this thread, and from all it starts from now on, the right to write elsewhere;
    /// returns whether the kernel enforces it.
    pub(crate) fn restrict(self) -> Result<bool, RulesetError> {
        let writes = AccessFs::from_write(ABI::V5);
        let mut rules = Ruleset::default().handle_access(writes)?;
        rules = match &self.reach {
            TcpReach::Everything => rules,
            // Listening reaches nobody by itself.
            TcpReach::Ports(_) => rules.handle_access(AccessNet::ConnectTcp)?,
            TcpReach::Nothing => rules.handle_access(AccessNet::from_all(ABI::V4))?,
        };
        if self.is_alone {
            rules = rules.scope(Scope::from_all(ABI::V6))?;
        }
        let mut rules = rules.create()?;
        for place in self.places {
            let Ok(fd) = PathFd::new(&place) else { continue };
            let access =
                if place.is_dir() { writes } else { writes & AccessFs::from_file(ABI::V5) };
            rules = rules.add_rule(PathBeneath::new(fd, access))?;
        }
        if let TcpReach::Ports(ports) = self.reach {
            for port in ports {
                rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
            }
        }
        Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
    }
}
