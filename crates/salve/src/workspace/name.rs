//! How snapshots are called: by incident, attempt and moment.

use std::fmt;

use salve_core::id::IncidentId;

/// Where all snapshots' refs live; no porcelain of git lists them as branches or tags.
pub(super) const REFS: &str = "refs/salve";

/// Where the refs of what git ignores live, in a repository of Salve's own.
pub(super) const IGNORED_REFS: &str = "refs/salve-ignored";

/// The moment of an attempt that a snapshot keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Moment {
    /// Before the remedy ran.
    Before,
    /// What a remedy made of it, of which nothing is in the tree: it is in a private layer, or was
    /// taken back because it did not help.
    InLayer,
    /// When what it changed was measured, or taken over.
    After,
    /// Before it was undone, the first, second… time.
    Undone(u32),
}

/// The name of one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    pub incident: IncidentId,
    /// The attempt, from 1.
    pub attempt: u32,
    pub moment: Moment,
}

impl Name {
    /// Names the snapshot from before an attempt.
    pub fn before(incident: IncidentId, attempt: u32) -> Self {
        Self { incident, attempt, moment: Moment::Before }
    }

    /// Names the same attempt at another moment.
    pub fn at(self, moment: Moment) -> Self {
        Self { moment, ..self }
    }

    /// Returns the hidden ref: `refs/salve/<incident>/<attempt>`, with `-layer`, `-after`,
    /// `-undone`, `-undone-2`… at its end for the other moments.
    pub fn to_ref(self) -> String {
        format!("{REFS}/{}/{self}", self.incident)
    }

    /// Returns the ref of what was ignored, in the vault.
    pub(super) fn to_ignored_ref(self) -> String {
        format!("{IGNORED_REFS}/{}/{self}", self.incident)
    }

    /// Reads a ref back.
    pub(super) fn from_ref(text: &str) -> Option<Self> {
        let (incident, rest) = text.strip_prefix(REFS)?.strip_prefix('/')?.split_once('/')?;
        let (attempt, moment) = match rest.split_once('-') {
            None => (rest, Moment::Before),
            Some((attempt, "layer")) => (attempt, Moment::InLayer),
            Some((attempt, "after")) => (attempt, Moment::After),
            Some((attempt, "undone")) => (attempt, Moment::Undone(1)),
            Some((attempt, other)) => {
                (attempt, Moment::Undone(other.strip_prefix("undone-")?.parse().ok()?))
            }
        };
        Some(Self { incident: incident.parse().ok()?, attempt: attempt.parse().ok()?, moment })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.attempt)?;
        match self.moment {
            Moment::Before => Ok(()),
            Moment::InLayer => f.write_str("-layer"),
            Moment::After => f.write_str("-after"),
            Moment::Undone(1) => f.write_str("-undone"),
            Moment::Undone(time) => write!(f, "-undone-{time}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_ref_is_read_back_as_it_was_written() {
        let before = Name::before(IncidentId(Uuid::from_u128(7)), 3);
        let id = "00000000-0000-0000-0000-000000000007";
        for (moment, tail) in [
            (Moment::Before, "3"),
            (Moment::InLayer, "3-layer"),
            (Moment::After, "3-after"),
            (Moment::Undone(1), "3-undone"),
            (Moment::Undone(12), "3-undone-12"),
        ] {
            let name = before.at(moment);
            assert_eq!(name.to_ref(), format!("refs/salve/{id}/{tail}"));
            assert_eq!(Name::from_ref(&name.to_ref()), Some(name));
        }
        for bad in
            ["refs/heads/main", "refs/salve/x/1", "refs/salve/", &format!("refs/salve/{id}/a")]
        {
            assert_eq!(Name::from_ref(bad), None, "{bad}");
        }
    }
}
