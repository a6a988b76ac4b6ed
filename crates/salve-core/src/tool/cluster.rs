//! Which cluster a failed call was about, as the tools spec's flowchart has it.

/// A cluster, and how it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetCluster {
    /// Its name: one of the settings' or one of the spec's four.
    pub name: String,
    /// Who says so.
    pub origin: ClusterOrigin,
}

/// Who says which cluster a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterOrigin {
    /// The settings or the caller.
    Given,
    /// The tool's name or the error's text.
    Guessed,
}

impl TargetCluster {
    /// Returns the cluster that is `given`, or, for none or `auto`, the one that the tool's name and
    /// its output suggest.
    pub fn detect(given: Option<&str>, tool: &str, output: &str) -> Self {
        if let Some(name) = given.filter(|name| *name != "auto") {
            return Self { name: name.to_owned(), origin: ClusterOrigin::Given };
        }
        let tool = tool.to_lowercase();
        let name = if tool.contains("bonfire") {
            "ephemeral"
        } else if tool.contains("konflux") {
            "konflux"
        } else if output.to_lowercase().contains("prod") {
            "prod"
        } else {
            "stage"
        };
        Self { name: name.to_owned(), origin: ClusterOrigin::Guessed }
    }

    /// Returns whether something may be done to the cluster: production is never guessed.
    pub fn may_be_acted_on(&self) -> bool {
        self.origin == ClusterOrigin::Given || self.name != "prod"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flowchart_is_followed_and_production_is_never_guessed() {
        for (given, tool, output, want, may) in [
            (None, "bonfire_deploy", "prod", "ephemeral", true),
            (Some("auto"), "Konflux_list", "", "konflux", true),
            (None, "kube_get", "cluster PROD-1 said no", "prod", false),
            (None, "kube_get", "401", "stage", true),
            (Some("prod"), "bonfire_deploy", "", "prod", true),
            (Some("ephemeral"), "x", "prod", "ephemeral", true),
        ] {
            let cluster = TargetCluster::detect(given, tool, output);
            assert_eq!((&*cluster.name, cluster.may_be_acted_on()), (want, may), "{tool} {output}");
        }
    }
}
