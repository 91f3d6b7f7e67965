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
		"driver/rueidis/redial.go", "	if login { //", "	if false && login { //",
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
		"a connection whose login has expired is kept",
		"driver/rueidis/redial.go", "if login && code == \"NOAUTH\" ||", "if false ||",
		"driver/rueidis", "TestExpiredLogin",
	},
	{
		"sentinels get the credentials of the servers",
		"driver/rueidis/sentinel.go", "			n.sentinel = true\n", "",
		"test/deploy", "TestRotation/sentinel",
	},
	{
		"a refused client name ends the connection for subscriptions",
		"driver/rueidis/subconn.go", "if err == nil && cmd[0] == \"AUTH\" {", "if err == nil {",
		"test/deploy", "TestForbiddenCommands/named",
	},
	{
		"the error of a script does not name the missing command",
		"driver/errors.go", "names = strings.Join(list, \" or \")", "_ = list",
		"test/deploy", "TestRenamedCommands/PEXPIRE",
	},
	{
		"the error of a script contains the position in the script, from Valkey 9.1 on",
		"driver/errors.go", `script: (\w+, )?on`, `script: (\w+, )on`,
		"driver", "TestServerErrorOfEveryServer",
	},
	{
		"Open accepts a server without Lua",
		"open.go", "errors.Is(err, driver.ErrNoLua) {", "false && errors.Is(err, driver.ErrNoLua) {",
		"test/deploy", "TestWithoutLua",
	},
	{
		"the check does not say how to get Lua",
		"internal/check/rights.go", "errors.Is(err, driver.ErrNoLua) {", "false && errors.Is(err, driver.ErrNoLua) {",
		"test/deploy", "TestWithoutLua",
	},
	{
		"the check does not notice a missing command",
		"internal/check/rights.go", "	i.missing(rs)\n", "",
		"test/deploy", "TestRenamedCommands/PEXPIRE",
	},
	{
		"the check stops at a server without INFO",
		"internal/check/rights.go", " && !strings.Contains(f.Err.Error(), \"unknown command\") {", " {",
		"internal/check", "TestServerWithoutInfo",
	},
	{
		"a master with an IPv6 address at the sentinels has no brackets",
		"driver/rueidis/sentinel.go", "return net.JoinHostPort(addr[0], addr[1]), nil", "return addr[0] + \":\" + addr[1], nil",
		"test/deploy", "TestIPv6Sentinel",
	},
	{
		"the IPv6 address of a cluster node ends at its first colon",
		"driver/rueidis/route.go", "i := strings.LastIndexByte(addr, ':')", "i := strings.IndexByte(addr, ':')",
		"test/deploy", "TestIPv6Cluster",
	},
	{
		"a connection to a server that has become a replica is kept",
		"driver/rueidis/redial.go", "code == \"READONLY\" && n.c.Mode == Single", "code == \"READONLY\" && n.c.Mode < Single",
		"test/deploy", "TestNameMoves/demoted,_with_data",
	},
	{
		"subscriptions stay at the server that had the host name before",
		"driver/rueidis/subscriber.go", "if s.n.term.Load() != term {", "if false && s.n.term.Load() != term {",
		"test/deploy", "TestNameMoves/demoted,_with_data",
	},
	{
		"a waiter does not notice that its server has become a replica",
		"driver/rueidis/redial.go", "const roleEvery = 5 * time.Second", "const roleEvery = time.Hour",
		"test/deploy", "TestNameMoves/demoted,_with_data",
	},
	{
		"a replica that refuses WAIT ends the waiting calls",
		"driver/rueidis/calls.go", "if strings.Contains(err.Error(), \"WAIT cannot be used with replica\") {", "if false {",
		"test/deploy", "TestNameMoves/demoted,_acked,_with_data",
	},
}
