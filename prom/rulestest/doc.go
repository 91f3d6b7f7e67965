// Package rulestest tests the dashboard and the alert rules of the module prom with the
// parser and the engine of Prometheus. It is a module of its own, because they have many
// dependencies.
package rulestest
