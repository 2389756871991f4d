// What a request would meet, limit by limit, and when it would fit.

import { T } from './texts.js';
import { post } from './api.js';
import { address, bdi, field, h, link, table } from './dom.js';
import { compact, countdown, exact, limitText } from './format.js';
import { entityField, resourceField } from './limitform.js';
import { watch } from './live.js';
import { guard } from './problem.js';
import { limitsSeen } from './state.js';

// show shows the view.
export function show({ main, params, signal, heading }) {
  watch([]);
  const entity = entityField(T.entity, params.get('entity') ?? '', { required: true, signal });
  const resource = resourceField(T.resource, params.get('resource') ?? '', { required: true, signal });
  const amounts = h('div', { class: 'limit-rows' });
  const box = h('div');
  const result = h('div', { class: 'result', 'aria-live': 'polite' });
  const add = (name = '', amount = 1) => {
    const row = h('div', { class: 'amount-row' },
      field(T.limit, h('input', { type: 'text', name: 'name', value: name, required: true, maxlength: 256, autocomplete: 'off', spellcheck: 'false', dir: 'auto' })),
      field(T.amount, h('input', { type: 'number', name: 'amount', value: amount, min: 0, step: 1, required: true, inputmode: 'numeric' })),
      h('button', { type: 'button', class: 'quiet remove', 'aria-label': T.removeAmount, title: T.removeAmount, onclick: () => row.remove() }, '✕'));
    amounts.append(row);
    return row;
  };
  const given = parseAmounts(params.get('consume'));
  const names = limitsSeen(params.get('entity') ?? '');
  if (given.length) given.forEach(([name, n]) => add(name, n));
  else (names.length ? names.slice(0, 4) : ['rpm']).forEach((name) => add(name));
  const button = h('button', { type: 'submit', class: 'primary' }, T.explainButton);

  let running = null;
  const ask = async () => {
    running?.abort();
    running = new AbortController();
    const inner = running;
    signal.addEventListener('abort', () => inner.abort());
    const consume = Object.fromEntries([...amounts.children].map((row) => [row.querySelector('[name=name]').value.trim(), Number(row.querySelector('[name=amount]').value)]));
    const request = { entity: entity.input.value.trim(), resource: resource.input.value.trim(), consume };
    const text = Object.entries(consume).map(([k, v]) => `${k}:${v}`).join(',');
    history.replaceState(history.state, '', address('explain', { entity: request.entity, resource: request.resource, consume: text }));
    button.disabled = true;
    const answer = await guard(box, () => post('api/explain', request, inner.signal), ask);
    button.disabled = false;
    if (answer) result.replaceChildren(...verdict(answer, inner.signal, ask));
    else if (!inner.signal.aborted) result.replaceChildren();
  };

  main.append(heading(T.explain), h('p', { class: 'lead' }, T.explainLead),
    h('form', { class: 'card form', onsubmit: (e) => { e.preventDefault(); ask(); } },
      h('div', { class: 'pair' }, entity.element, resource.element),
      h('fieldset', { class: 'editor' }, h('legend', null, T.amounts), amounts,
        h('button', { type: 'button', class: 'quiet', onclick: () => add().querySelector('input').focus() }, T.addAmount)),
      h('div', { class: 'submit' }, button)),
    box, result);
  if (entity.input.value && resource.input.value && given.length) ask();
}

function parseAmounts(text) {
  return (text ?? '').split(',').map((part) => {
    const at = part.lastIndexOf(':');
    return [part.slice(0, at), Number(part.slice(at + 1))];
  }).filter(([name, n]) => name && Number.isFinite(n));
}

function verdict(answer, signal, ask) {
  const kind = answer.admitted ? 'fits' : answer.never_fits ? 'never' : 'waits';
  const left = h('strong', { class: 'countdown' });
  const line = h('p', { class: 'verdict-line' }, h('span', { class: 'verdict-sign', 'aria-hidden': 'true' }, { fits: '✓', waits: '⏳', never: '✕' }[kind]), T.verdicts[kind], kind === 'waits' ? [' ', h('span', { 'aria-hidden': 'true' }, T.fitsIn), ' ', left] : null);
  if (kind === 'waits') {
    countdown(left, answer.retry_after_seconds, signal, () => {
      left.textContent = T.fitsNow;
      ask();
    });
  }
  const reasons = answer.reasons?.length ? h('ul', { class: 'reasons' }, answer.reasons.map((r) => h('li', null, bdi(r)))) : null;
  return [
    h('section', { class: `card verdict ${kind}`, 'data-verdict': kind }, h('h2', { class: 'hidden' }, T.verdict), line, reasons),
    h('section', { class: 'card' }, h('h2', null, T.byLimit), limits(answer, signal)),
    h('section', { class: 'card' }, h('h2', null, T.limitsByLevel), levels(answer)),
  ];
}

function limits(answer, signal) {
  const rows = (answer.limits ?? []).map((l) => [
    link('entity', { id: l.entity_id }, null, bdi(l.entity_id)),
    bdi(l.limit_name),
    { number: l.requested }, { number: l.available }, { number: l.capacity },
    T.sources[l.source] ?? l.source,
    status(l, signal),
  ].map((cell) => (cell?.number === undefined ? cell : h('span', { title: exact(cell.number) }, compact(cell.number)))));
  const number = (label) => ({ label, number: true });
  return table(T.byLimit, [T.entity, T.limit, number(T.requested), number(T.available), number(T.capacity), T.source, T.verdict], rows);
}

function status(l, signal) {
  if (l.never_fits) return h('span', { class: 'use red' }, h('span', { class: 'sign', 'aria-hidden': 'true' }, '✕'), T.neverFits);
  if (!l.exceeded) return h('span', { class: 'use green' }, h('span', { class: 'sign', 'aria-hidden': 'true' }, '✓'), T.fits);
  const left = h('span', { class: 'countdown' });
  const element = h('span', { class: 'use red' }, h('span', { class: 'sign', 'aria-hidden': 'true' }, '▲'), T.refusedFor, ' ', left);
  countdown(left, l.retry_after_seconds, signal, () => {
    element.className = 'use green';
    element.replaceChildren(h('span', { class: 'sign', 'aria-hidden': 'true' }, '✓'), T.fitsNow);
  });
  return element;
}

function levels(answer) {
  return table(T.limitsByLevel, [T.level, T.entity, T.resource, T.limits, T.inForce], (answer.levels ?? []).map((l) => [
    T.sources[l.level] ?? l.level,
    l.entity_id ? bdi(l.entity_id) : '–',
    l.resource ? bdi(l.resource) : '–',
    l.limits?.length ? h('ul', { class: 'plain' }, l.limits.map((x) => h('li', null, bdi(limitText(x))))) : h('span', { class: 'muted' }, T.noLimits),
    l.in_force ? h('span', { class: 'force' }, `✓ ${T.inForce}`) : h('span', { class: 'muted' }, '–'),
  ]));
}
