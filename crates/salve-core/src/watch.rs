//! The watch over one run of a server: from its start until it is well, and for as long as it is.
//!
//! [`Watch`] decides and never acts. Its owner tells it what was seen, asks it what is due, and
//! makes the probes it asks for. Time is given in milliseconds since the run began, taken from a
//! clock that nobody can set.
//!
//! A server is well when it answers where it should, and still does after a soak; one that answers
//! nowhere is well when it has stayed up for as long as it takes to say so. A server that starts
//! for the first time has the whole start-up time to get there; one that is being verified must
//! not answer badly more often than the probes allow.

/// How long things may take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchTerms {
    /// Whether this run has to prove itself after a remedy.
    pub strictness: Strictness,
    /// Bad answers in a row that make a server unwell.
    pub retries: u32,
    /// The pause between two probes.
    pub delay_ms: u64,
    /// How long a server that answers well has to go on doing so.
    pub soak_ms: u64,
    /// How long a server may take until it answers at all.
    pub startup_ms: u64,
    /// How long a server that answers nowhere has to stay up.
    pub survive_ms: u64,
    /// The pause between two looks at a server that is well; zero for none.
    pub liveness_ms: u64,
    /// How long a server that was well may answer badly.
    pub grace_ms: u64,
}

/// How much a run is trusted to come up by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// It was started as usual: bad answers are forgiven until the start-up time is over.
    Lenient,
    /// It was started to verify a remedy: bad answers count from the first.
    Strict,
}

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// It answers as it should.
    Good,
    /// Nobody listens there.
    Nobody,
    /// Another process answers there.
    Stranger,
    /// It listens and does not answer in time.
    Silent,
    /// It answers, and not as it should.
    Bad,
}

/// What is wrong with a server that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerTrouble {
    /// It never began to listen.
    NotListening,
    /// Another process answers in its place.
    Replaced,
    /// It listens and gives no sign of life.
    Hung,
    /// It answers, and not as it should.
    Unhealthy,
    /// It runs, and tells itself what is broken around it.
    Impaired,
}

/// Something that was seen of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerSight {
    /// It became known where the server answers.
    Address,
    /// A probe came back.
    Answered(ProbeAnswer),
    /// Time passed.
    Time,
}

/// A turn worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchTurn {
    /// It runs and is being probed.
    Checking,
    /// It looks well and has to stay so for a while.
    Soaking,
    /// It is well.
    Well,
    /// It is unwell; the watch is over.
    Unwell(ServerTrouble),
}

/// What the owner of a watch does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Probe now and tell what came of it.
    Probe,
    /// Look again at this time, or when something was seen.
    At(u64),
    /// Wait until something is seen.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchState {
    Starting,
    Checking { bad: u32, probe_at: u64 },
    Soaking { until: u64 },
    Well { probe_at: Option<u64>, failing: Option<u64> },
    Over,
}

/// Where a server answers, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// It is known from the start.
    Known,
    /// The server may yet tell.
    Unknown,
}

/// The watch over one run of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    terms: WatchTerms,
    address: Address,
    state: WatchState,
    probing: bool,
}

impl Watch {
    /// Begins the watch over a run that has just begun.
    pub fn new(terms: WatchTerms, address: Address) -> Self {
        let state = match address {
            Address::Known => WatchState::Checking { bad: 0, probe_at: 0 },
            Address::Unknown => WatchState::Starting,
        };
        Self { terms, address, state, probing: false }
    }

    /// Tells whether the server has been found well.
    pub fn is_well(&self) -> bool {
        matches!(self.state, WatchState::Well { .. })
    }

    /// Returns what is due at `now`; a probe is due once and counts as made.
    pub fn due(&mut self, now: u64) -> Due {
        if self.probing {
            return Due::Nothing;
        }
        let probe_at = match self.state {
            WatchState::Starting => return Due::At(self.terms.survive_ms),
            WatchState::Checking { probe_at, .. } => probe_at,
            WatchState::Soaking { until } if self.address == Address::Unknown => {
                return Due::At(until);
            }
            WatchState::Soaking { until } => until,
            WatchState::Well { probe_at: Some(probe_at), .. } => probe_at,
            WatchState::Well { probe_at: None, .. } | WatchState::Over => return Due::Nothing,
        };
        if now < probe_at {
            return Due::At(probe_at);
        }
        self.probing = true;
        Due::Probe
    }

    /// Takes in what was seen at `now` and returns the turn it brought about, if any.
    pub fn hear(&mut self, now: u64, seen: ServerSight) -> Option<WatchTurn> {
        match seen {
            ServerSight::Address => self.found(now),
            ServerSight::Answered(answer) => {
                self.probing = false;
                self.answered(now, answer)
            }
            ServerSight::Time => self.waited(now),
        }
    }

    fn found(&mut self, now: u64) -> Option<WatchTurn> {
        let before = std::mem::replace(&mut self.address, Address::Known);
        match self.state {
            WatchState::Starting => self.check(now),
            WatchState::Soaking { .. } if before == Address::Unknown => self.check(now),
            WatchState::Well { failing, .. } if before == Address::Unknown => {
                self.state = WatchState::Well { probe_at: self.next_look(now), failing };
                None
            }
            WatchState::Checking { .. }
            | WatchState::Soaking { .. }
            | WatchState::Well { .. }
            | WatchState::Over => None,
        }
    }

    fn check(&mut self, now: u64) -> Option<WatchTurn> {
        self.state = WatchState::Checking { bad: 0, probe_at: now };
        Some(WatchTurn::Checking)
    }

    fn waited(&mut self, now: u64) -> Option<WatchTurn> {
        match self.state {
            WatchState::Starting if now >= self.terms.survive_ms => Some(self.soak(now)),
            WatchState::Soaking { until } if self.address == Address::Unknown && now >= until => {
                Some(self.well(now))
            }
            WatchState::Starting
            | WatchState::Checking { .. }
            | WatchState::Soaking { .. }
            | WatchState::Well { .. }
            | WatchState::Over => None,
        }
    }

    fn soak(&mut self, now: u64) -> WatchTurn {
        self.state = WatchState::Soaking { until: now.saturating_add(self.terms.soak_ms) };
        WatchTurn::Soaking
    }

    fn well(&mut self, now: u64) -> WatchTurn {
        self.state = WatchState::Well { probe_at: self.next_look(now), failing: None };
        WatchTurn::Well
    }

    fn next_look(&self, now: u64) -> Option<u64> {
        let looks = self.terms.liveness_ms > 0 && self.address == Address::Known;
        looks.then(|| now.saturating_add(self.terms.liveness_ms))
    }

    fn answered(&mut self, now: u64, answer: ProbeAnswer) -> Option<WatchTurn> {
        match (self.state, answer) {
            (WatchState::Checking { .. }, ProbeAnswer::Good) => Some(self.soak(now)),
            (WatchState::Checking { bad, .. }, answer) => self.answered_badly(now, bad, answer),
            (WatchState::Soaking { .. }, ProbeAnswer::Good) => Some(self.well(now)),
            (WatchState::Soaking { .. }, answer) => self.answered_badly(now, 0, answer),
            (WatchState::Well { .. }, ProbeAnswer::Good) => {
                self.state = WatchState::Well { probe_at: self.next_look(now), failing: None };
                None
            }
            (WatchState::Well { failing, .. }, answer) => {
                let since = failing.unwrap_or(now);
                if now.saturating_sub(since) >= self.terms.grace_ms {
                    return Some(self.unwell(answer));
                }
                let probe_at = Some(now.saturating_add(self.terms.delay_ms));
                self.state = WatchState::Well { probe_at, failing: Some(since) };
                None
            }
            (WatchState::Starting | WatchState::Over, _) => None,
        }
    }

    /// Counts a bad answer of a server that is not well yet.
    fn answered_badly(&mut self, now: u64, bad: u32, answer: ProbeAnswer) -> Option<WatchTurn> {
        let late = now >= self.terms.startup_ms;
        let counts = match answer {
            // A server that does not listen yet, or whose place is still taken, is starting.
            ProbeAnswer::Nobody | ProbeAnswer::Stranger | ProbeAnswer::Good => late,
            ProbeAnswer::Silent | ProbeAnswer::Bad => {
                late || self.terms.strictness == Strictness::Strict
            }
        };
        let bad = if counts { bad.saturating_add(1) } else { 0 };
        if bad >= self.terms.retries.max(1) {
            return Some(self.unwell(answer));
        }
        self.state =
            WatchState::Checking { bad, probe_at: now.saturating_add(self.terms.delay_ms) };
        None
    }

    fn unwell(&mut self, answer: ProbeAnswer) -> WatchTurn {
        self.state = WatchState::Over;
        WatchTurn::Unwell(match answer {
            ProbeAnswer::Nobody => ServerTrouble::NotListening,
            ProbeAnswer::Stranger => ServerTrouble::Replaced,
            ProbeAnswer::Silent => ServerTrouble::Hung,
            ProbeAnswer::Bad | ProbeAnswer::Good => ServerTrouble::Unhealthy,
        })
    }
}

#[cfg(test)]
mod tests {
    use ProbeAnswer::{Bad, Good, Nobody, Silent, Stranger};

    use super::*;

    fn terms(strictness: Strictness) -> WatchTerms {
        WatchTerms {
            strictness,
            retries: 3,
            delay_ms: 10,
            soak_ms: 30,
            startup_ms: 1_000,
            survive_ms: 50,
            liveness_ms: 100,
            grace_ms: 25,
        }
    }

    /// Lets a server give these answers, then the last of them for ever, and returns its turns.
    fn turns(mut watch: Watch, answers: &[ProbeAnswer]) -> Vec<(u64, WatchTurn)> {
        let mut answers = answers.iter().copied();
        let (mut now, mut last, mut turns) = (0, None, Vec::new());
        for _ in 0..1_000 {
            let seen = match watch.due(now) {
                Due::Probe => {
                    last = answers.next().or(last);
                    ServerSight::Answered(last.expect("an answer"))
                }
                Due::At(at) => {
                    now = at;
                    ServerSight::Time
                }
                Due::Nothing => break,
            };
            turns.extend(watch.hear(now, seen).map(|turn| (now, turn)));
        }
        turns
    }

    #[track_caller]
    fn check(strictness: Strictness, answers: &[ProbeAnswer], want: &[(u64, WatchTurn)]) {
        let watch = Watch::new(terms(strictness), Address::Known);
        assert_eq!(turns(watch, answers), want, "{answers:?}");
    }

    #[test]
    fn a_server_is_well_when_it_answers_and_still_does_after_the_soak() {
        let want = [(0, WatchTurn::Soaking), (30, WatchTurn::Well)];
        for strictness in [Strictness::Lenient, Strictness::Strict] {
            check(strictness, &[Good], &want);
        }
    }

    #[test]
    fn a_server_that_does_not_listen_yet_has_its_start_up_time() {
        let want = [(20, WatchTurn::Soaking), (50, WatchTurn::Well)];
        for strictness in [Strictness::Lenient, Strictness::Strict] {
            check(strictness, &[Nobody, Stranger, Good], &want);
        }
        let want = [(1_020, WatchTurn::Unwell(ServerTrouble::NotListening))];
        check(Strictness::Strict, &[Nobody], &want);
        let want = [(1_020, WatchTurn::Unwell(ServerTrouble::Replaced))];
        check(Strictness::Lenient, &[Stranger], &want);
    }

    #[test]
    fn bad_answers_count_at_once_only_when_a_remedy_is_verified() {
        check(Strictness::Strict, &[Bad], &[(20, WatchTurn::Unwell(ServerTrouble::Unhealthy))]);
        check(Strictness::Strict, &[Silent], &[(20, WatchTurn::Unwell(ServerTrouble::Hung))]);
        check(Strictness::Lenient, &[Bad], &[(1_020, WatchTurn::Unwell(ServerTrouble::Unhealthy))]);
        let want = [(20, WatchTurn::Soaking), (50, WatchTurn::Well)];
        check(Strictness::Strict, &[Bad, Bad, Good], &want);
    }

    /// **Invariant:** A server is well only when it still answers after the soak.
    #[test]
    fn four_good_seconds_are_not_health() {
        let want = [
            (0, WatchTurn::Soaking),
            // Bad at the end of the soak: it has to begin again.
            (40, WatchTurn::Soaking),
            (70, WatchTurn::Well),
        ];
        check(Strictness::Strict, &[Good, Bad, Good], &want);
    }

    #[test]
    fn a_server_that_was_well_is_unwell_when_it_fails_past_the_grace() {
        let unwell = |ailment| {
            [(0, WatchTurn::Soaking), (30, WatchTurn::Well), (160, WatchTurn::Unwell(ailment))]
        };
        check(Strictness::Lenient, &[Good, Good, Silent], &unwell(ServerTrouble::Hung));
        check(Strictness::Lenient, &[Good, Good, Bad], &unwell(ServerTrouble::Unhealthy));
        let fine = [(0, WatchTurn::Soaking), (30, WatchTurn::Well)];
        check(Strictness::Lenient, &[Good, Good, Bad, Silent, Good], &fine);
    }

    #[test]
    fn a_server_that_answers_nowhere_has_to_stay_up() {
        let watch = Watch::new(terms(Strictness::Strict), Address::Unknown);
        assert_eq!(turns(watch, &[]), [(50, WatchTurn::Soaking), (80, WatchTurn::Well)]);
    }

    #[test]
    fn an_address_may_turn_up_at_any_time() {
        let mut watch = Watch::new(terms(Strictness::Strict), Address::Unknown);
        assert_eq!(watch.hear(5, ServerSight::Address), Some(WatchTurn::Checking));
        assert_eq!(watch.due(5), Due::Probe);
        assert_eq!(watch.due(6), Due::Nothing, "one probe at a time");
        assert_eq!(watch.hear(7, ServerSight::Answered(Good)), Some(WatchTurn::Soaking));
        assert_eq!(watch.hear(8, ServerSight::Address), None, "it is known");

        let mut watch = Watch::new(terms(Strictness::Strict), Address::Unknown);
        assert_eq!(watch.hear(50, ServerSight::Time), Some(WatchTurn::Soaking));
        assert_eq!(watch.hear(60, ServerSight::Address), Some(WatchTurn::Checking));
        let mut watch = Watch::new(terms(Strictness::Strict), Address::Unknown);
        watch.hear(50, ServerSight::Time);
        assert_eq!(watch.hear(80, ServerSight::Time), Some(WatchTurn::Well));
        assert_eq!(watch.due(80), Due::Nothing);
        assert_eq!(watch.hear(90, ServerSight::Address), None);
        assert_eq!(watch.due(90), Due::At(190));
    }

    #[test]
    fn without_liveness_nobody_looks_at_a_server_that_is_well() {
        let terms = WatchTerms { liveness_ms: 0, ..terms(Strictness::Lenient) };
        let watch = Watch::new(terms, Address::Known);
        assert_eq!(turns(watch, &[Good]), [(0, WatchTurn::Soaking), (30, WatchTurn::Well)]);
    }
}
