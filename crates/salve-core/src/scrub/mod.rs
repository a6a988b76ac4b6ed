//! Keeps secrets out of everything Salve stores, prints, sends or shows.
