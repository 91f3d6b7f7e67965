// Package redistest is the harness of the tests that need a real Redis and a
// faulty network.
//
// A lock is only as good as its behaviour when things go wrong, and mocks
// agree with whatever their author believed. The package therefore runs real
// redis-server processes ([Start], [Shared], [Fresh]), which tests may pause,
// kill and restart, and puts a [Proxy] that understands the protocol between
// client and server, which freezes, delays, cuts and drops exactly the reply a
// test asks for.
//
// [StartReplicated], [StartSentinels] and [StartCluster] run whole groups of
// servers, which fail over and move slots as they do elsewhere. With options
// they speak TLS, ask for passwords, have clocks that can be moved
// ([Server.MoveClock]) and a [Network] in between that keeps any two of them
// apart.
//
// [MeterStalls] tells a slow machine from a broken promise.
//
// [Worker] runs code of a test in a process of its own, [Recorder] and
// [CheckExclusive] prove that critical sections of several processes never
// overlapped, and [CheckGoroutines] that a test left nothing running.
//
// Everything is released in the Cleanup of the test that asked for it. On
// Linux a test binary that is killed takes its servers and workers with it; on
// other systems they may outlive it.
package redistest
