// The usage of the last days, replayed against other limits.

import { T } from './texts.js';
import { post } from './api.js';
import { bdi, field, h, link, table } from './dom.js';
import { compact, dateTime, exact, limitText } from './format.js';
import { entityField, LimitsEditor, resourceField } from './limitform.js';
import { watch } from './live.js';
import { guard } from './problem.js';

const largest = 1 << 20;
const shownAtOnce = 200;

// show shows the view.
export function show({ main, params, signal, heading }) {
  watch([]);
  const box = h('div');
  const result = h('div', { class: 'result', 'aria-live': 'polite' });
  const entity = entityField(T.entity, params.get('entity') ?? '', { hint: T.emptyForAll, signal });
  const resource = resourceField(T.resource, params.get('resource') ?? '', { hint: T.emptyForAllResources, signal });
  const editor = new LimitsEditor();
  const scope = h('div', null, h('div', { class: 'pair' }, entity.element, resource.element), editor.element);
  const text = h('textarea', { name: 'manifest', rows: 12, spellcheck: 'false', class: 'mono', placeholder: T.manifestHint });
  const file = h('input', { type: 'file', accept: '.yaml,.yml,.json,text/yaml,application/yaml' });
  file.addEventListener('change', async () => {
    const chosen = file.files[0];
    if (!chosen) return;
    if (chosen.size > largest) text.value = T.tooLarge;
    else text.value = await chosen.text();
  });
  const manifest = h('div', null, field(T.chooseFile, file), field(T.manifest, text));
  const days = h('input', { type: 'number', name: 'days', min: 1, max: 90, step: 1, value: 7, required: true });
  const button = h('button', { type: 'submit', class: 'primary' }, T.whatIfButton);
  let mode = '';
  const modes = h('div', { class: 'segments', role: 'group', 'aria-label': T.proposal },
    ['scope', 'manifest'].map((m) => h('button', { type: 'button', 'data-mode': m, onclick: () => choose(m) }, T.modes[m])));
  const form = h('form', { class: 'card form', onsubmit: (e) => { e.preventDefault(); ask(); } });
  const choose = (next) => {
    mode = next;
    for (const b of modes.children) b.setAttribute('aria-pressed', String(b.dataset.mode === mode));
    form.replaceChildren(modes, mode === 'scope' ? scope : manifest, h('div', { class: 'submit' }, field(T.days, days), button));
  };
  choose('scope');

  let running = null;
  const ask = async () => {
    running?.abort();
    running = new AbortController();
    const inner = running;
    signal.addEventListener('abort', () => inner.abort());
    const proposal = mode === 'manifest' ? { manifest: text.value } : { entity: entity.input.value.trim(), resource: resource.input.value.trim(), limits: editor.value() };
    button.disabled = true;
    button.textContent = T.replaying;
    const report = await guard(box, () => post('api/what-if', { ...proposal, days: Number(days.value) }, inner.signal), ask);
    button.disabled = false;
    button.textContent = T.whatIfButton;
    result.replaceChildren(...(report ? reportParts(report) : []));
  };

  main.append(heading(T.whatIf), h('p', { class: 'lead' }, T.whatIfLead), note(), form, box, result);
}

function note() {
  return h('p', { class: 'note' }, h('strong', null, T.lowerBound), ' ', T.lowerBoundWhy);
}

function reportParts(report) {
  const rows = report.rows ?? [];
  const good = !report.entities_over;
  const head = h('section', { class: `card verdict ${good ? 'fits' : 'waits'}` },
    h('h2', null, good ? T.whatIfGood(exact(report.entities)) : T.whatIfBad(exact(report.entities_over), exact(report.entities))),
    h('p', null, T.whatIfSaw(exact(report.snapshots), report.first ? dateTime(report.first) : '', report.last ? dateTime(report.last) : '')),
    report.complete ? null : h('p', null, h('strong', null, T.whatIfStopped)),
    report.unseen?.length ? h('p', null, T.whatIfUnseen, ' ', report.unseen.map((n, i) => [i ? ', ' : '', bdi(n)])) : null);
  if (!rows.length) return [head];
  const body = h('div');
  const more = h('button', { type: 'button', class: 'more', onclick: () => draw(rows.length) }, T.showAll(exact(rows.length)));
  const number = (label) => ({ label, number: true });
  const draw = (count) => {
    more.hidden = count >= rows.length;
    body.replaceChildren(table(T.report, [T.entity, T.resource, T.limit, T.nowColumn, T.proposed, number(T.hoursOver), number(T.tokensOver), number(T.callsOver), T.worstHour], rows.slice(0, count).map(reportRow), 'report'));
  };
  draw(Math.min(shownAtOnce, rows.length));
  return [head, h('section', { class: 'card' }, h('h2', null, T.report), body, more)];
}

function reportRow(r) {
  const bad = r.tokens_over > r.tokens_over_now;
  const number = (n) => h('span', { title: exact(n) }, T.atLeast(compact(n)));
  return [
    link('entity', { id: r.entity_id }, null, bdi(r.entity_id)), bdi(r.resource), bdi(r.limit),
    r.current ? bdi(limitText(r.current)) : T.none,
    r.proposed ? bdi(limitText(r.proposed)) : h('span', { class: 'use red' }, h('span', { class: 'sign', 'aria-hidden': 'true' }, '✕'), T.goes),
    T.hoursOf(exact(r.hours_over), exact(r.hours_used)),
    h('span', { class: bad ? 'use red' : 'muted' }, bad ? h('span', { class: 'sign', 'aria-hidden': 'true' }, '▲') : null, number(r.tokens_over)),
    r.calls_over == null ? '–' : number(r.calls_over),
    r.worst ? h('span', { title: T.worstTitle(exact(r.worst_used), exact(r.worst_over)) }, dateTime(r.worst).slice(0, 16)) : '–',
  ];
}
