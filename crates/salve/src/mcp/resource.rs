//! The resources: crash logs and incidents' stories.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use rustix::fs::{Mode, OFlags};
use salve_core::event::SubjectKind;
use salve_core::id::IncidentId;
use salve_core::repair;

use super::news::ResourceChanges;
use super::{RepairTools, RepairToolsError};

/// The most of a crash log that is read, from its end.
const MOST: u64 = 512 * 1024;

/// What a resource's address means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceAddress {
    /// An incident's crash log.
    CrashLog(IncidentId),
    /// An incident's story.
    Incident(IncidentId),
    /// What is open for the team.
    Issues,
}

/// The address of what is open for the team.
const ISSUES: &str = "salve://issues";

impl ResourceAddress {
    /// Reads an address.
    pub(super) fn parse(uri: &str) -> Option<Self> {
        if uri == ISSUES {
            return Some(Self::Issues);
        }
        let rest = uri.strip_prefix("salve://")?;
        let (kind, id) = rest.split_once('/')?;
        let id = id.parse().ok()?;
        match kind {
            "crash-log" => Some(Self::CrashLog(id)),
            "incident" => Some(Self::Incident(id)),
            _ => None,
        }
    }

    /// Returns the addresses of what changed.
    pub(super) fn changed(news: &ResourceChanges) -> Vec<String> {
        let of = |id: &IncidentId| [repair::crash_log_uri(*id), repair::incident_uri(*id)];
        let issues = news.team.then(|| ISSUES.to_owned());
        news.changed.iter().flat_map(of).chain(issues).collect()
    }
}

/// Why a resource could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResourceError {
    /// There is no such resource.
    #[error("there is no resource `{0}`; resources/list shows those there are")]
    Missing(String),
    /// The crash log cannot be read.
    #[error("the crash log cannot be read: {0}")]
    Log(#[source] io::Error),
    /// The journal cannot be used.
    #[error(transparent)]
    Room(#[from] RepairToolsError),
}

/// Returns what there is to read, the newest first.
pub(super) fn list(room: &mut RepairTools<'_>) -> Result<Vec<Resource>, RepairToolsError> {
    let mut list = Vec::new();
    let open = room.open()?;
    if !open.issues.is_empty() || !open.incidents.is_empty() {
        list.push(
            Resource::new(ISSUES, "issues")
                .with_title("Open issues")
                .with_description("Red checks and reported issues, and what is proposed for each")
                .with_mime_type("application/json"),
        );
    }
    for (id, kind, name) in room.incidents()? {
        let short = id.short();
        let title = format!("Incident {short} of {name}");
        list.push(
            Resource::new(repair::incident_uri(id), format!("incident-{short}"))
                .with_title(title)
                .with_description("What happened, when, who did it, and how it stands")
                .with_mime_type("application/json"),
        );
        let log = room.project().root().join(repair::crash_log_name(id));
        if kind == SubjectKind::Server && log.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            list.push(
                Resource::new(repair::crash_log_uri(id), format!("crash-log-{short}"))
                    .with_title(format!("Crash log {short} of {name}"))
                    .with_description("What the server wrote before it crashed")
                    .with_mime_type("text/plain"),
            );
        }
    }
    Ok(list)
}

/// Returns how addresses are made.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("salve://incident/{repairId}", "incident")
            .with_description("What happened, when, who did it, and how it stands")
            .with_mime_type("application/json"),
        ResourceTemplate::new("salve://crash-log/{repairId}", "crash-log")
            .with_description("What the server wrote before it crashed")
            .with_mime_type("text/plain"),
    ]
}

/// Reads one resource.
pub(super) fn read(
    room: &mut RepairTools<'_>,
    uri: &str,
) -> Result<ResourceContents, ResourceError> {
    let missing = || ResourceError::Missing(uri.chars().take(120).collect());
    let known = |result: Result<repair::IncidentStory, RepairToolsError>| match result {
        Err(RepairToolsError::Unknown { .. } | RepairToolsError::Ambiguous(_)) => Err(missing()),
        Err(error) => Err(error.into()),
        Ok(story) => Ok(story),
    };
    match ResourceAddress::parse(uri).ok_or_else(missing)? {
        ResourceAddress::Incident(id) => {
            let story = known(room.story(&id.to_string()))?;
            // A story has string keys only, so there is no failing path.
            let text = serde_json::to_string_pretty(&story).unwrap_or_default();
            Ok(ResourceContents::text(text, uri).with_mime_type("application/json"))
        }
        ResourceAddress::Issues => {
            // It has string keys only, so there is no failing path.
            let text = serde_json::to_string_pretty(&room.open()?).unwrap_or_default();
            Ok(ResourceContents::text(text, uri).with_mime_type("application/json"))
        }
        ResourceAddress::CrashLog(id) => {
            known(room.story(&id.to_string()))?;
            let text = match crash_log(room, id) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
                read => read.map_err(ResourceError::Log)?,
            };
            Ok(ResourceContents::text(text, uri))
        }
    }
}

/// Reads an incident's crash log without secrets; a link in its place is not followed.
fn crash_log(room: &RepairTools<'_>, id: IncidentId) -> io::Result<String> {
    let path = room.project().root().join(repair::crash_log_name(id));
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(&path, flags, Mode::empty())?);
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    if meta.len() > MOST {
        file.seek(SeekFrom::End(-i64::try_from(MOST).unwrap_or(0)))?;
    }
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(room.scrubber().scrub(&String::from_utf8_lossy(&bytes)).into_string())
}
