//! Why an entry of the journal changes nothing about an incident.

/// Why an entry changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Ignored {
    /// It belongs to another incident, or to none.
    #[error("it does not belong to this incident")]
    Elsewhere,
    /// It was taken in before.
    #[error("it was taken in before")]
    Replayed,
    /// The incident is over.
    #[error("the incident is over")]
    Over,
    /// Only the owner may say this, and another process said it.
    #[error("it is not from the incident's owner")]
    NotOwner,
    /// The incident has an owner who was not named as gone.
    #[error("the incident has an owner")]
    Held,
    /// Only a named person may say this.
    #[error("only a named person may say this")]
    NotAPerson,
    /// It answers something that is no longer, or was not yet, the question.
    #[error("it is not what is being waited for")]
    Stale,
    /// The effect was not due: its remedy was not allowed, or something else comes first.
    #[error("the effect was not due")]
    NotDue,
    /// It comes before its time.
    #[error("it comes before its time")]
    TooEarly,
    /// The budget does not allow it.
    #[error("the budget is used up; a person has to refill it")]
    Exhausted,
    /// The budget is not used up.
    #[error("the budget is not used up")]
    NotExhausted,
    /// The same failure keeps coming back, and this remedy would change nothing about it.
    #[error("the same failure keeps coming back; only a hard reset is left")]
    NoProgress,
    /// The report does not fit the effect.
    #[error("the report does not fit the effect")]
    WrongReport,
    /// It says nothing new.
    #[error("it says nothing new")]
    NoNews,
}
