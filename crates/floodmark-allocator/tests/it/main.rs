//! The allocator, from outside: its rules one by one, and what holds for any program.

mod laws;
mod rules;
mod script;
