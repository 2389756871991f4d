package loadtest

func (p plan) scenario() Scenario { return Scenario{Name: p.name, Shapes: p.shapes} }
