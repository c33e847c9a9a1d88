//! After which operator calls more was allocated than before: one row for each call that allocated.
//!
//! A call lasts until the next one allocates, so that a free between two calls counts for the first, and the growth
//! of all calls is that of the whole recording. A row's `bytes` are what the call allocated and is live at the moment
//! of the report, so that the rows add up to it as in every other report. The largest growth is first.

use std::cmp::Reverse;
use std::collections::HashMap;

use floodmark_trace::{Allocation, AllocationId, Bytes, Device, Subject, Trace};

use crate::allocation::context::Context;
use crate::allocation::location::{BEFORE_RECORDING, allocation_location};
use crate::grouping::by_step::difference;
use crate::grouping::live_groups::{Group, Live};
use crate::grouping::row::{Detail, Row};
use crate::moment::totals::Totals;

/// A call of an operator, and the levels of the device from its beginning to that of the next one.
#[derive(Debug)]
struct OpCall {
    /// Its first allocation.
    first: AllocationId,
    /// The event that allocated it.
    began: u32,
    start: Bytes,
    peak: Bytes,
    end: Bytes,
}

impl OpCall {
    fn growth(&self) -> i64 {
        difference(self.end, self.start)
    }

    /// Whether an allocation belongs to a call after this one.
    fn is_before(&self, trace: &Trace, allocation: &Allocation) -> bool {
        let own = &trace.allocations[self.first.index()];
        allocation.begins_op_call || (allocation.thread, allocation.op) != (own.thread, own.op)
    }
}

pub(crate) fn rows(live: &Live<'_>, context: &Context, top: usize) -> (usize, Vec<Row>) {
    let calls = calls(live.trace, live.device);
    let groups = live.group_by_with_unseen(None, |_, allocation| {
        let began = calls.partition_point(|call| call.began <= allocation.made_at);
        began.checked_sub(1).filter(|_| !allocation.before_recording)
    });
    let mut groups: HashMap<Option<usize>, Group<Option<usize>>> =
        groups.into_iter().map(|group| (group.key, group)).collect();
    let before = groups.remove(&None);
    let total = calls.len() + usize::from(before.is_some());
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_key(|&at| (Reverse(calls[at].growth()), at));
    order.truncate(top);
    let shown =
        order.into_iter().map(|at| row(live, context, at, &calls[at], groups.remove(&Some(at))));
    let mut rows: Vec<Row> = shown.collect();
    rows.extend(before.filter(|_| total <= top).map(row_before));
    (total, rows)
}

fn row(
    live: &Live<'_>,
    context: &Context,
    number: usize,
    call: &OpCall,
    group: Option<Group<Option<usize>>>,
) -> Row {
    let allocation = live.get(call.first);
    let phase = context.phase(live.trace, call.first);
    let time = live.trace.events.get(call.began as usize).map(|event| event.time.as_seconds());
    let detail = Detail::OpCall {
        call: u32::try_from(number).ok(),
        op: live.trace.text(allocation.op).map(str::to_owned),
        module: live.module(call.first).map(str::to_owned),
        step: context.step(call.began),
        phase: phase.map(|phase| phase.name(live.trace).to_owned()),
        seconds: time,
        peak: Some(call.peak),
        end: Some(call.end),
        growth: Some(call.growth()),
    };
    let empty = || Group { key: None, members: vec![], bytes: Bytes(0), median: Bytes(0) };
    group.unwrap_or_else(empty).into_row(allocation_location(live.trace, allocation), detail)
}

fn row_before(group: Group<Option<usize>>) -> Row {
    let detail = Detail::OpCall {
        call: None,
        op: None,
        module: None,
        step: None,
        phase: None,
        seconds: None,
        peak: None,
        end: None,
        growth: None,
    };
    group.into_row(BEFORE_RECORDING.to_owned(), detail)
}

/// Every call that allocated on a device, in order. Where operators were not recorded, allocations of a thread that
/// follow one another are one call.
fn calls(trace: &Trace, device: Device) -> Vec<OpCall> {
    let mut totals = Totals::at_start(trace, device);
    let mut calls: Vec<OpCall> = Vec::new();
    for (at, event) in (0_u32..).zip(&trace.events) {
        if event.device != device {
            continue;
        }
        if let Subject::Alloc(first) = event.subject {
            let allocation = &trace.allocations[first.index()];
            let is_next = calls.last().is_none_or(|call| call.is_before(trace, allocation));
            if is_next && !allocation.before_recording {
                let now = totals.allocated();
                calls.push(OpCall { first, began: at, start: now, peak: now, end: now });
            }
        }
        totals.apply(trace, event);
        if let Some(call) = calls.last_mut() {
            call.end = totals.allocated();
            call.peak = call.peak.max(call.end);
        }
    }
    calls
}
