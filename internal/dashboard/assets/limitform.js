// Fields for names of the store and for limits.

import { T } from './texts.js';
import { get } from './api.js';
import { field, h, unique } from './dom.js';
import { entitiesSeen, limitsSeen } from './state.js';

// suggest returns a text field with a list of suggestions.
function suggest(attributes, values) {
  const list = h('datalist', { id: unique('list') });
  const put = (all) => list.replaceChildren(...all.slice(0, 50).map((v) => h('option', { value: v })));
  put(values);
  const input = h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', maxlength: 256, dir: 'auto', list: list.id, ...attributes });
  return { input, list, put };
}

// entityField returns a field for an ID, which suggests entities while one types.
export function entityField(label, value, { required = false, hint, signal } = {}) {
  const { input, list, put } = suggest({ value, required, name: 'entity' }, entitiesSeen());
  let running = null;
  let timer = 0;
  input.addEventListener('input', () => {
    clearTimeout(timer);
    running?.abort();
    const search = input.value.trim();
    if (search.length < 2) return;
    timer = setTimeout(async () => {
      running = new AbortController();
      signal.addEventListener('abort', () => running.abort());
      try {
        const page = await get('api/overview', { order: 'name', limit: 20, search }, running.signal);
        put([...new Set(page.rows.map((r) => r.entity))]);
      } catch {
        // Suggestions are a convenience.
      }
    }, 250);
  });
  return { element: h('div', { class: 'holder' }, field(label, input, hint), list), input };
}

// resourceField returns a field for a resource, which suggests all of them.
export function resourceField(label, value, { required = false, hint, signal } = {}) {
  const { input, list, put } = suggest({ value, required, name: 'resource' }, []);
  get('api/resources', null, signal).then((answer) => put(answer.resources ?? []), () => {});
  return { element: h('div', { class: 'holder' }, field(label, input, hint), list), input };
}

const periods = [1, 60, 3600, 86400];

// LimitsEditor edits a list of limits.
export class LimitsEditor {
  constructor(limits) {
    this.rows = h('div', { class: 'limit-rows' });
    this.element = h('fieldset', { class: 'editor' }, h('legend', null, T.limits), this.rows,
      h('button', { type: 'button', class: 'quiet', onclick: () => this.add().querySelector('input').focus() }, T.addLimit));
    (limits?.length ? limits : [null]).forEach((l) => this.add(l));
  }

  add(limit) {
    const seconds = limit?.refill_period_seconds ?? 60;
    const period = h('select', { name: 'period' }, [...new Set([...periods, seconds])].sort((a, b) => a - b)
      .map((p) => h('option', { value: p, selected: p === seconds }, T.periods[p] ?? T.seconds(p))));
    const { input, list } = suggest({ name: 'name', value: limit?.name ?? '', required: true, placeholder: 'rpm' }, limitsSeen(''));
    const amount = (name, value) => h('input', { type: 'number', name, min: 1, step: 1, required: true, inputmode: 'numeric', value: value ?? '' });
    const row = h('div', { class: 'limit-row' }, list, field(T.name, input), field(T.capacity, amount('capacity', limit?.capacity)),
      field(T.refillAmount, amount('refill', limit?.refill_amount)), field(T.every, period),
      h('button', { type: 'button', class: 'quiet remove', 'aria-label': T.removeLimit, title: T.removeLimit, onclick: () => row.remove() }, '✕'));
    this.rows.append(row);
    return row;
  }

  value() {
    return [...this.rows.children].map((row) => ({
      name: row.querySelector('[name=name]').value.trim(),
      capacity: Number(row.querySelector('[name=capacity]').value),
      refill_amount: Number(row.querySelector('[name=refill]').value),
      refill_period_seconds: Number(row.querySelector('[name=period]').value),
    }));
  }
}
