// Changes of limits and entities, each with a preview before it happens.

import { T } from './texts.js';
import { post } from './api.js';
import { bdi, field, h, link } from './dom.js';
import { exact, limitText } from './format.js';
import { entityField, LimitsEditor, resourceField } from './limitform.js';
import { watch } from './live.js';
import { guard } from './problem.js';
import { canChange, state } from './state.js';

// show shows the view.
export function show({ main, params, signal, heading }) {
  watch([]);
  main.append(heading(T.changes));
  if (!canChange()) {
    main.append(h('p', { class: 'note' }, state.info.write ? T.needsAdmin : T.needsWrite));
    return;
  }
  const box = h('div');
  const result = h('div', { class: 'result', 'aria-live': 'polite' });
  const form = h('form', { class: 'card form', onsubmit: (e) => { e.preventDefault(); preview(); } });
  const action = h('select', { name: 'action', onchange: () => build() },
    Object.entries(T.changeActions).map(([value, text]) => h('option', { value, selected: params.get('action') === value }, text)));
  let fields = null;
  const build = () => {
    fields = action.value === 'create_entity' ? entityForm(params, signal) : limitsForm(params, signal, action.value === 'set_limits');
    form.replaceChildren(field(T.change, action), ...fields.elements, h('div', { class: 'submit' }, h('button', { type: 'submit', class: 'primary' }, T.preview)));
    box.replaceChildren();
    result.replaceChildren();
  };
  form.addEventListener('input', () => result.replaceChildren());
  const preview = async () => {
    const change = { action: action.value, ...fields.value() };
    result.replaceChildren();
    const answer = await guard(box, () => post('api/preview', change, signal), preview);
    if (answer) result.replaceChildren(previewCard(change, answer, () => apply(change)));
  };
  const apply = async () => {
    const button = result.querySelector('.confirm');
    button.disabled = true;
    const answer = await guard(box, () => post('api/change', change(), signal));
    button.disabled = false;
    if (answer === undefined) return;
    const done = change();
    result.replaceChildren(h('p', { class: 'note done', role: 'status', tabindex: -1 }, h('span', { 'aria-hidden': 'true' }, '✓ '), T.changed[done.action], ' ',
      done.entity ? link('entity', { id: done.entity }, null, bdi(done.entity)) : done.resource ? link('resource', { name: done.resource }, null, bdi(done.resource)) : null));
    result.firstChild.focus();
  };
  const change = () => ({ action: action.value, ...fields.value() });
  main.append(h('p', { class: 'lead' }, T.changesLead), form, box, result);
  build();
}

function limitsForm(params, signal, withLimits) {
  const entity = entityField(T.entity, params.get('entity') ?? '', { hint: T.emptyForAll, signal });
  const resource = resourceField(T.resource, params.get('resource') ?? '', { hint: T.emptyForAllResources, signal });
  const editor = withLimits ? new LimitsEditor() : null;
  return {
    elements: [h('div', { class: 'pair' }, entity.element, resource.element), editor?.element].filter(Boolean),
    value: () => ({ entity: entity.input.value.trim(), resource: resource.input.value.trim(), ...(editor && { limits: editor.value() }) }),
  };
}

function entityForm(params, signal) {
  const text = (name, required) => h('input', { type: 'text', name, required, maxlength: 256, autocomplete: 'off', spellcheck: 'false', dir: 'auto' });
  const id = text('entity', true);
  const name = text('name');
  const parent = entityField(T.parent, params.get('parent') ?? '', { hint: T.optional, signal });
  const cascade = h('input', { type: 'checkbox', name: 'cascade' });
  const metadata = h('textarea', { name: 'metadata', rows: 3, spellcheck: 'false', class: 'mono', placeholder: 'tier=gold' });
  return {
    elements: [
      h('div', { class: 'pair' }, field(T.id, id), field(T.displayName, name, T.optional)),
      parent.element,
      h('div', { class: 'check' }, h('label', null, cascade, ' ', T.cascadeLabel)),
      field(T.metadata, metadata, T.metadataHint),
    ],
    value: () => ({ entity: id.value.trim(), name: name.value.trim(), parent: parent.input.value.trim(), cascade: cascade.checked, metadata: pairs(metadata.value) }),
  };
}

function pairs(text) {
  return Object.fromEntries(text.split('\n').map((l) => l.trim()).filter(Boolean).map((l) => {
    const at = l.indexOf('=');
    return at < 0 ? [l, ''] : [l.slice(0, at).trim(), l.slice(at + 1).trim()];
  }));
}

function previewCard(change, answer, confirm) {
  const danger = change.action === 'delete_limits';
  const changesLimits = change.action !== 'create_entity';
  return h('section', { class: 'card preview' }, h('h2', null, T.previewTitle),
    changesLimits && h('div', { class: 'compare' }, side(T.before, answer.before), h('span', { class: 'arrow', 'aria-hidden': 'true' }, '→'), side(T.after, answer.after)),
    changesLimits && h('p', null, T.affects(exact(answer.affects ?? 0), exact(answer.scanned ?? 0), answer.done)),
    answer.examples?.length ? h('ul', { class: 'examples' }, answer.examples.map(example)) : null,
    answer.warnings?.length ? h('ul', { class: 'warnings' }, answer.warnings.map((w) => h('li', null, h('span', { 'aria-hidden': 'true' }, '▲ '), bdi(w)))) : null,
    h('div', { class: 'submit' }, h('button', { type: 'button', class: `confirm ${danger ? 'danger' : 'primary'}`, onclick: confirm }, T.confirm[change.action], ' ', T.asPrincipal, ' ', h('bdi', { dir: 'auto' }, answer.principal || state.info.principal))));
}

function side(title, limits) {
  return h('div', { class: 'side' }, h('h3', null, title),
    limits?.length ? h('ul', { class: 'plain' }, limits.map((l) => h('li', null, bdi(limitText(l))))) : h('p', { class: 'muted' }, T.noLimits));
}

function example(e) {
  const text = (limits) => (limits?.length ? limits.map(limitText).join('; ') : T.noLimits);
  return h('li', null, bdi(e.entity), ' · ', bdi(e.resource), ': ', h('span', { class: 'muted' }, bdi(text(e.from))), ' → ', bdi(text(e.to)));
}
