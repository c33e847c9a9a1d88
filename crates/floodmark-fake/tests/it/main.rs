//! Rules for hidden memory against what torch took.

mod against_torch;
