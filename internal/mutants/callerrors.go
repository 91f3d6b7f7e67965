package mutants

func init() { All = append(All, callErrors...) }

// callErrors holds the mutants of errors that tell a caller why its call ended.
var callErrors = []Mutant{
	{
		"Lead returns the error of its function although its context is done",
		"election.go", "if done := ctx.Err(); done != nil && err != nil {", "if done := ctx.Err(); done != nil && again {",
		"test/behaviour", "TestCauseOfContext",
	},
	{
		"Open returns the cause of its context instead of its error",
		"driver/rueidis/driver.go", "driver.Unsent(ctx.Err())", "driver.Unsent(context.Cause(ctx))",
		"test/behaviour", "TestCauseOfContext",
	},
	{
		"the error of a call matches what the cause of its context matches",
		"errors.go", "func (c *caused) Unwrap() error { return c.error }", "func (c *caused) Unwrap() []error { return []error{c.error, c.cause} }",
		"test/behaviour", "TestCauseIsALoss",
	},
	{
		"a call for more permits than are declared waits",
		"declare.go", "if s.permits != 0 && permits > s.permits {", "if s.permits != 0 && permits > 1000 {",
		"test/behaviour", "TestDeclaredTooFew",
	},
	{
		"Open connects to a read-only replica",
		"driver/rueidis/driver.go", "return n.checkRole()", "return nil",
		"test/behaviour", "TestOpenReplica",
	},
	{
		"Open refuses a replica that accepts writes",
		"driver/facts.go", `f.Role != "slave" || f.Info["slave_read_only"] == "0"`, `f.Role != "slave"`,
		"test/behaviour", "TestOpenReplica",
	},
}
