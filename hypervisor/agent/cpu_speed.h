// How fast a CPU of this host is, so that forecasts know of hosts that differ.
#pragma once

namespace mare::agent {

/// Millions of steps of a fixed loop in a second of one CPU's time: integer arithmetic on a table
/// that the second-level cache holds, each step of which needs the one before it. The best of some
/// tries, some 50 ms together, by the thread's CPU time: other programs that run meanwhile take
/// little of it. Says nothing by itself; two hosts' are compared with each other.
double measure_cpu_speed();

}  // namespace mare::agent
