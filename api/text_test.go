package api

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// describe returns the exported API of a package as sorted lines.
func describe(p *types.Package) []string {
	d := &description{home: p}
	for _, name := range p.Scope().Names() {
		if object := p.Scope().Lookup(name); object.Exported() {
			d.add(object)
		}
	}
	slices.Sort(d.lines)
	return slices.Compact(d.lines)
}

type description struct {
	home  *types.Package
	lines []string
}

func (d *description) addf(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *description) add(object types.Object) {
	switch o := object.(type) {
	case *types.Const:
		d.addf("const %s %s = %s", o.Name(), d.text(o.Type()), o.Val().ExactString())
	case *types.Var:
		d.addf("var %s %s", o.Name(), d.text(o.Type()))
	case *types.Func:
		signature := o.Signature()
		d.addf("func %s%s%s", o.Name(), d.parameters(signature.TypeParams()), d.signature(signature))
	case *types.TypeName:
		d.addType(o)
	}
}

func (d *description) addType(o *types.TypeName) {
	if o.IsAlias() {
		d.addf("type %s = %s", o.Name(), d.text(types.Unalias(o.Type())))
		return
	}
	named, ok := o.Type().(*types.Named)
	if !ok {
		panic(fmt.Sprintf("%s is declared as a %T", o.Name(), o.Type()))
	}
	name := o.Name() + d.parameters(named.TypeParams())
	switch under := named.Underlying().(type) {
	case *types.Struct:
		d.addStruct(name, under)
	case *types.Interface:
		d.addInterface(name, under)
		return
	default:
		d.addf("type %s %s", name, d.text(under))
	}
	d.addMethods(named)
}

func (d *description) addStruct(name string, s *types.Struct) {
	d.addf("type %s struct", name)
	for field := range s.Fields() {
		switch {
		case !field.Exported():
		case field.Embedded():
			d.addf("type %s struct, embedded %s", name, d.text(field.Type()))
		default:
			d.addf("type %s struct, %s %s", name, field.Name(), d.text(field.Type()))
		}
	}
}

// addInterface lists all methods in one line, which a further method changes: that
// breaks implementations.
func (d *description) addInterface(name string, i *types.Interface) {
	var methods []string
	for method := range i.Methods() {
		if !method.Exported() {
			methods = append(methods, "unexported methods")
			continue
		}
		methods = append(methods, method.Name())
		d.addf("type %s interface, %s%s", name, method.Name(), d.signature(method.Signature()))
	}
	slices.Sort(methods)
	d.addf("type %s interface { %s }", name, strings.Join(slices.Compact(methods), ", "))
}

// addMethods adds the methods of a type and of its embedded fields.
func (d *description) addMethods(named *types.Named) {
	values := types.NewMethodSet(named)
	for selection := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		method := selection.Obj()
		if !method.Exported() {
			continue
		}
		receiver := named.Obj().Name()
		if values.Lookup(method.Pkg(), method.Name()) == nil {
			receiver = "*" + receiver
		}
		if signature, ok := selection.Type().(*types.Signature); ok {
			d.addf("method (%s) %s%s", receiver, method.Name(), d.signature(signature))
		}
	}
}

// parameters returns the type parameters of a declaration.
func (d *description) parameters(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var texts []string
	for parameter := range list.TypeParams() {
		texts = append(texts, parameter.Obj().Name()+" "+d.text(parameter.Constraint()))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// signature returns parameters and results.
func (d *description) signature(s *types.Signature) string {
	return strings.TrimPrefix(d.text(s), "func")
}

// text returns a type with the folders of its packages, relative to this module.
func (d *description) text(t types.Type) string {
	return types.TypeString(nameless(t), func(p *types.Package) string {
		switch {
		case p.Path() == d.home.Path():
			return ""
		case p.Path() == module:
			return p.Name()
		}
		return strings.TrimPrefix(p.Path(), module+"/")
	})
}

// nameless returns a type whose functions have no names of parameters, which
// callers do not see.
func nameless(t types.Type) types.Type {
	switch t := t.(type) {
	case *types.Signature:
		return types.NewSignatureType(nil, nil, nil, namelessTuple(t.Params()), namelessTuple(t.Results()),
			t.Variadic())
	case *types.Pointer:
		return types.NewPointer(nameless(t.Elem()))
	case *types.Slice:
		return types.NewSlice(nameless(t.Elem()))
	case *types.Array:
		return types.NewArray(nameless(t.Elem()), t.Len())
	case *types.Chan:
		return types.NewChan(t.Dir(), nameless(t.Elem()))
	case *types.Map:
		return types.NewMap(nameless(t.Key()), nameless(t.Elem()))
	}
	return t
}

func namelessTuple(tuple *types.Tuple) *types.Tuple {
	var variables []*types.Var
	for variable := range tuple.Variables() {
		variables = append(variables, types.NewParam(variable.Pos(), variable.Pkg(), "", nameless(variable.Type())))
	}
	return types.NewTuple(variables...)
}
