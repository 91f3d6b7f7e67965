package mutants

func init() { All = append(All, deploy...) }

// deploy holds the mutants of what deployments do to clients.
var deploy = []Mutant{
	{
		"the connection for subscriptions keeps the first credentials",
		"driver/rueidis/subconn.go", "	username, password, err := n.credentials(ctx)\n", "	username, password, err := n.credentials(ctx)\n	if n.logins.Load() >= 0 && n.c.Credentials != nil {\n		username, password = \"app\", \"first-password\"\n	}\n",
		"test/deploy", "TestRotation/single",
	},
	{
		"rejected credentials are final",
		"driver/rueidis/credentials.go", "	if login { //", "	if false && login { //",
		"test/deploy", "TestLateRotation",
	},
	{
		"the error of the credentials function shows its text",
		"driver/rueidis/credentials.go", "log it in that function\", a.err), a.err)}", "log it in that function: %v\", a.err, a.err), a.err)}",
		"test/deploy", "TestFailingCredentials/error",
	},
	{
		"a credentials function that never returns is called again and again",
		"driver/rueidis/credentials.go", "const maxLogins = 16\n", "const maxLogins = 1600\n",
		"driver/rueidis", "TestStuckCredentials",
	},
	{
		"sentinels get the credentials of the servers",
		"driver/rueidis/sentinel.go", "			n.sentinel = true\n", "",
		"test/deploy", "TestRotation/sentinel",
	},
}
