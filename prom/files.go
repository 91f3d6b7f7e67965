package prom

import _ "embed" // for the files below

var (
	//go:embed grafana/holdfast.json
	dashboard string
	//go:embed alerts/holdfast.rules.yml
	rules string
)

// Dashboard returns a dashboard for Grafana in JSON: the file grafana/holdfast.json of this
// module.
func Dashboard() string { return dashboard }

// Rules returns alert rules for Prometheus in YAML: the file alerts/holdfast.rules.yml of
// this module.
func Rules() string { return rules }
