//! What heals a failed tool call: the user's rules first, then those that the spec's settings imply.
//!
//! **Invariant:** a call that may have acted is retried only if its tool only reads or says that a
//! second call does no more than one.

use regex_automata::meta::Regex;
use serde::Deserialize;

use super::cluster::TargetCluster;
use super::failure::{CallReach, FailedCall, FailureCategory};
use super::session::ToolHints;
use crate::class::Class;
use crate::gate::ApprovalPattern;

/// The tools that the spec's own servers fix things with.
const VPN_TOOL: &str = "vpn_connect";
const LOGIN_TOOL: &str = "kube_login";

/// One rule of the user's.
#[derive(Clone, Debug)]
pub struct HealRule {
    /// Which tools or commands it is for.
    pub tool: Option<ToolPattern>,
    /// Which failures it is for.
    pub when: RuleCondition,
    /// What it does.
    pub fix: ToolFix,
}

/// A pattern over names of tools or commands; `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPattern(ApprovalPattern);

impl ToolPattern {
    /// Reads a pattern.
    pub fn new(text: &str) -> Self {
        Self(ApprovalPattern::new(text))
    }

    /// Returns whether a tool or command is meant.
    pub fn matches(&self, tool: &str) -> bool {
        self.0.matches(tool)
    }
}

/// Which failures a rule is for.
#[derive(Clone, Debug)]
pub enum RuleCondition {
    /// Those whose text matches.
    Text(Regex),
    /// Those of a class.
    Class(Class),
    /// Those of a category.
    Category(FailureCategory),
}

impl RuleCondition {
    /// Returns the condition that a failure's text matches a regular expression.
    ///
    /// # Errors
    ///
    /// What is wrong with the expression.
    pub fn text(expression: &str) -> Result<Self, String> {
        Regex::new(expression).map(Self::Text).map_err(|error| error.to_string())
    }
}

/// What is done about a failure before the call is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolFix {
    /// A command.
    Run {
        /// The command, for the shell.
        command: String,
        /// What it may write to outside of the project.
        writes: Vec<String>,
        /// The cluster that it is about, if it names one.
        cluster: Option<String>,
        /// Who all is helped by it.
        reach: FixReach,
    },
    /// The user's own program that brings the VPN up, which no sandbox could hold.
    ConnectVpn {
        /// Its path.
        script: String,
    },
    /// Another tool of the same server.
    Call { tool: String, arguments: Vec<(String, String)> },
    /// A new server process.
    Restart,
    /// A pause of so many seconds.
    Wait {
        /// How long.
        seconds: u64,
    },
}

/// Who all is helped by a command that one machine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FixReach {
    /// This machine, as by a login.
    #[default]
    Machine,
    /// All machines of the fleet, as by mending what they share.
    Fleet,
}

impl ToolFix {
    /// Returns what one fix has in common with itself, whoever does it.
    pub fn cause(&self) -> String {
        match self {
            Self::Run { command, .. } => format!("run {command}"),
            Self::ConnectVpn { script } => format!("vpn {script}"),
            Self::Call { tool, arguments } => format!("call {tool} {arguments:?}"),
            Self::Restart => "restart".to_owned(),
            Self::Wait { .. } => "wait".to_owned(),
        }
    }

    /// Returns what it is called before it is done.
    pub fn name(&self) -> String {
        match self {
            Self::Run { command, .. } => command.clone(),
            Self::ConnectVpn { script } => script.clone(),
            Self::Call { tool, .. } => format!("call the tool {tool}"),
            Self::Restart => "restart the server".to_owned(),
            Self::Wait { seconds } => format!("wait {seconds} s"),
        }
    }

    /// Says what was done, for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Run { command, .. } => format!("ran `{command}`"),
            Self::ConnectVpn { script } => format!("ran `{script}`"),
            Self::Call { tool, .. } => format!("called `{tool}`"),
            Self::Restart => "restarted the server".to_owned(),
            Self::Wait { seconds } => format!("waited {seconds} s"),
        }
    }
}

/// What the settings say about healing calls.
#[derive(Clone, Debug, Default)]
pub struct HealTable {
    /// The user's rules, in their order.
    pub rules: Vec<HealRule>,
    /// The program that brings the VPN up.
    pub vpn_script: Option<String>,
    /// What is known about tools by the settings.
    pub tools: Vec<(ToolPattern, ToolTerms)>,
}

/// What the settings say about a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolTerms {
    /// What holds for calling it twice.
    pub hints: ToolHints,
    /// The cluster that it is about.
    pub cluster: Option<String>,
    /// The command or tool that shows what a call did.
    pub verify: Option<String>,
    /// How long a call may take, in milliseconds.
    pub timeout_ms: Option<u64>,
}

/// What may be done about one failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealChoice {
    /// These, one after the other, and after each the call again.
    Fixes(Vec<ToolFix>),
    /// Something would help, but the call may have acted and must not be repeated.
    MayHaveActed {
        /// The command or tool that shows whether it did, if the settings name one.
        look: Option<String>,
    },
    /// A person has to decide, for this reason.
    Person(String),
    /// Nothing is known that helps.
    Nothing,
}

impl HealTable {
    /// Returns what the settings say about a tool: all that matches, the first that says a thing.
    pub fn terms(&self, tool: &str) -> ToolTerms {
        let mut terms = ToolTerms::default();
        for (_, said) in self.tools.iter().filter(|(pattern, _)| pattern.matches(tool)) {
            terms.hints.is_read_only |= said.hints.is_read_only;
            terms.hints.is_idempotent |= said.hints.is_idempotent;
            terms.cluster = terms.cluster.or_else(|| said.cluster.clone());
            terms.verify = terms.verify.or_else(|| said.verify.clone());
            terms.timeout_ms = terms.timeout_ms.or(said.timeout_ms);
        }
        terms
    }

    /// Chooses what is done about a failed call; `has_tool` knows the tools of its server and
    /// `hints` what that says about calling this one twice.
    pub fn choose(
        &self,
        call: &FailedCall,
        hints: ToolHints,
        has_tool: &dyn Fn(&str) -> bool,
    ) -> HealChoice {
        let terms = self.terms(&call.tool);
        let cluster = TargetCluster::detect(terms.cluster.as_deref(), &call.tool, &call.text);
        let by_rule = self.rules.iter().filter(|rule| rule.is_for(call)).map(|rule| &rule.fix);
        let mut fixes: Vec<ToolFix> = Vec::new();
        let mut is_guessed = false;
        for fix in by_rule.cloned().chain(self.implied(call, &cluster, has_tool)) {
            let (fix, names_cluster) = filled(fix, call, &cluster);
            if names_cluster && !cluster.may_be_acted_on() {
                is_guessed = true;
            } else if fixes.iter().all(|other| other.cause() != fix.cause()) {
                fixes.push(fix);
            }
        }
        if fixes.is_empty() {
            let why = "the call seems to be about production, and production is never guessed";
            return if is_guessed {
                HealChoice::Person(why.to_owned())
            } else {
                HealChoice::Nothing
            };
        }
        if self.may_repeat(call, hints) {
            HealChoice::Fixes(fixes)
        } else {
            HealChoice::MayHaveActed { look: terms.verify }
        }
    }

    /// Tells whether a failed call may be made again: it has certainly not acted, or acting twice
    /// does no harm.
    pub fn may_repeat(&self, call: &FailedCall, hints: ToolHints) -> bool {
        let declared = self.terms(&call.tool).hints;
        let is_harmless = |hints: ToolHints| hints.is_read_only || hints.is_idempotent;
        call.reach == CallReach::NotReached || is_harmless(hints) || is_harmless(declared)
    }

    /// Returns what the spec's table says, where the means for it are there.
    fn implied(
        &self,
        call: &FailedCall,
        cluster: &TargetCluster,
        has_tool: &dyn Fn(&str) -> bool,
    ) -> Option<ToolFix> {
        let tool = |name: &str, arguments: Vec<(String, String)>| {
            let is_itself = call.tool == name;
            (has_tool(name) && !is_itself)
                .then(|| ToolFix::Call { tool: name.to_owned(), arguments })
        };
        match call.category {
            FailureCategory::Network => match &self.vpn_script {
                Some(script) => Some(ToolFix::ConnectVpn { script: script.clone() }),
                None => tool(VPN_TOOL, Vec::new()),
            },
            FailureCategory::Auth => {
                tool(LOGIN_TOOL, vec![("cluster".to_owned(), cluster.name.clone())])
            }
            FailureCategory::Busy => call.retry_after().map(|seconds| ToolFix::Wait { seconds }),
            FailureCategory::Other => None,
        }
    }
}

impl HealRule {
    fn is_for(&self, call: &FailedCall) -> bool {
        // A fix that fails itself is not fixed by itself.
        let is_own = match &self.fix {
            ToolFix::Call { tool, .. } => *tool == call.tool,
            ToolFix::Run { command, .. } => *command == call.tool,
            ToolFix::ConnectVpn { .. } | ToolFix::Restart | ToolFix::Wait { .. } => false,
        };
        let is_said = match &self.when {
            RuleCondition::Text(regex) => regex.is_match(&call.text),
            RuleCondition::Class(class) => *class == call.class,
            RuleCondition::Category(category) => *category == call.category,
        };
        let waits_in_vain =
            matches!(self.fix, ToolFix::Wait { .. }) && call.retry_after().is_none();
        is_said
            && !is_own
            && !waits_in_vain
            && self.tool.as_ref().is_none_or(|tool| tool.matches(&call.tool))
    }
}

/// Puts in what a rule leaves open; tells whether the cluster was asked for.
fn filled(fix: ToolFix, call: &FailedCall, cluster: &TargetCluster) -> (ToolFix, bool) {
    const OPEN: [&str; 2] = ["{{ cluster }}", "{{cluster}}"];
    let asks = |text: &String| OPEN.iter().any(|open| text.contains(open));
    let fill =
        |text: String| OPEN.iter().fold(text, |text, open| text.replace(open, &cluster.name));
    match fix {
        ToolFix::Run { command, writes, reach, .. } => {
            let names_cluster = asks(&command);
            let named = names_cluster.then(|| cluster.name.clone());
            (ToolFix::Run { command: fill(command), writes, cluster: named, reach }, names_cluster)
        }
        ToolFix::Call { tool, arguments } => {
            let names_cluster =
                tool == LOGIN_TOOL || arguments.iter().any(|(_, value)| asks(value));
            let arguments = arguments.into_iter().map(|(name, value)| (name, fill(value)));
            (ToolFix::Call { tool, arguments: arguments.collect() }, names_cluster)
        }
        ToolFix::Wait { .. } => (ToolFix::Wait { seconds: call.retry_after().unwrap_or(1) }, false),
        fix @ (ToolFix::ConnectVpn { .. } | ToolFix::Restart) => (fix, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> ToolFix {
        ToolFix::Run {
            command: "hbctl login".into(),
            writes: vec!["~/.hbctl".into()],
            cluster: None,
            reach: FixReach::Machine,
        }
    }

    fn table() -> HealTable {
        let text = RuleCondition::Text(Regex::new("(?i)401|token expired").unwrap());
        let rule = |tool: Option<&str>, when, fix| HealRule {
            tool: tool.map(ToolPattern::new),
            when,
            fix,
        };
        HealTable {
            rules: vec![
                rule(Some("hbctl *"), text, login()),
                rule(
                    None,
                    RuleCondition::Category(FailureCategory::Busy),
                    ToolFix::Wait { seconds: 0 },
                ),
                rule(
                    Some("oc_*"),
                    RuleCondition::Category(FailureCategory::Auth),
                    ToolFix::Run {
                        command: "oc login {{ cluster }}".into(),
                        writes: Vec::new(),
                        cluster: None,
                        reach: FixReach::Machine,
                    },
                ),
            ],
            vpn_script: Some("~/vpn".into()),
            tools: vec![(
                ToolPattern::new("hbctl get *"),
                ToolTerms {
                    hints: ToolHints { is_read_only: true, is_idempotent: false },
                    ..ToolTerms::default()
                },
            )],
        }
    }

    fn choose(tool: &str, text: &str) -> HealChoice {
        let call = FailedCall::new(tool, text, Class::Unknown);
        table().choose(&call, ToolHints::default(), &|tool| tool == LOGIN_TOOL)
    }

    fn call_login(cluster: &str) -> HealChoice {
        let arguments = vec![("cluster".to_owned(), cluster.to_owned())];
        HealChoice::Fixes(vec![ToolFix::Call { tool: LOGIN_TOOL.into(), arguments }])
    }

    /// The user's rule, and what the spec's table says after it.
    fn then_login() -> HealChoice {
        let HealChoice::Fixes(implied) = call_login("stage") else { unreachable!() };
        HealChoice::Fixes([vec![login()], implied].concat())
    }

    #[test]
    fn the_users_rules_come_first_and_the_specs_table_after() {
        let vpn = HealChoice::Fixes(vec![ToolFix::ConnectVpn { script: "~/vpn".into() }]);
        let wait = || HealChoice::Fixes(vec![ToolFix::Wait { seconds: 7 }]);
        for (tool, text, want) in [
            ("hbctl get orders", "error: token expired", then_login()),
            ("hbctl create order", "HTTP 401", then_login()),
            ("hbctl login", "HTTP 401", call_login("stage")),
            ("bonfire_deploy", "❌ 401 unauthorized", call_login("ephemeral")),
            ("kube_login", "401 unauthorized", HealChoice::Nothing),
            ("kube_get", "no route to host", vpn),
            ("any", "429 too many requests, retry-after: 7", wait()),
            ("any", "429 too many requests", HealChoice::Nothing),
            ("any", "disk full", HealChoice::Nothing),
        ] {
            assert_eq!(choose(tool, text), want, "{tool}: {text}");
        }
    }

    #[test]
    fn what_may_have_acted_is_not_repeated_unless_it_only_reads() {
        let acted = HealChoice::MayHaveActed { look: None };
        assert_eq!(choose("hbctl create order", "dial tcp: i/o timeout"), acted);
        assert!(matches!(
            choose("hbctl get orders", "dial tcp: i/o timeout"),
            HealChoice::Fixes(_)
        ));
        let call = FailedCall::new("pay", "request timeout", Class::Unknown);
        let hints = ToolHints { is_read_only: false, is_idempotent: true };
        assert!(matches!(table().choose(&call, hints, &|_| false), HealChoice::Fixes(_)));
    }

    #[test]
    fn production_is_never_guessed() {
        let guessed = choose("oc_get", "prod-cluster: 401 unauthorized");
        assert!(matches!(guessed, HealChoice::Person(_)), "{guessed:?}");
        let stage = choose("oc_get", "401 unauthorized");
        let want = ToolFix::Run {
            command: "oc login stage".into(),
            writes: Vec::new(),
            cluster: Some("stage".into()),
            reach: FixReach::Machine,
        };
        let arguments = vec![("cluster".to_owned(), "stage".to_owned())];
        let kube = ToolFix::Call { tool: LOGIN_TOOL.into(), arguments };
        assert_eq!(stage, HealChoice::Fixes(vec![want, kube]), "what helps else comes after");
    }
}
