// The tree of entities and their buckets, merged from pages in any order.

import { keyOf } from './state.js';

export class Tree {
	constructor() {
		this.nodes = new Map();
		this.rows = new Map();
	}

	merge(rows, ancestors) {
		for (const a of ancestors ?? []) this.node(a.entity, a);
		for (const row of rows) {
			this.node(row.entity, row).buckets.set(row.resource, row);
			this.rows.set(keyOf(row.entity, row.resource), row);
		}
	}

	// update replaces a bucket, if the tree holds it, and reports whether the entity has
	// another name or parent now.
	update(row) {
		if (!this.rows.has(keyOf(row.entity, row.resource))) return false;
		const { name, parent } = this.nodes.get(row.entity);
		this.merge([row]);
		const node = this.nodes.get(row.entity);
		return node.name !== name || node.parent !== parent;
	}

	remove(entity, resource) {
		this.nodes.get(entity)?.buckets.delete(resource);
		return this.rows.delete(keyOf(entity, resource));
	}

	node(id, facts) {
		let node = this.nodes.get(id);
		if (!node) {
			node = { id, name: '', parent: '', cascade: false, buckets: new Map() };
			this.nodes.set(id, node);
		}
		node.name = facts.name || node.name;
		node.parent = facts.parent || node.parent;
		node.cascade = facts.cascade ?? node.cascade;
		return node;
	}

	// flatten returns the lines to show: entities, their buckets and their children, siblings by ID.
	// Entities whose parents form a circle begin at the first of them.
	flatten(collapsed) {
		const children = new Map();
		const roots = [];
		const ids = [...this.nodes.keys()].sort();
		for (const id of ids) {
			const { parent } = this.nodes.get(id);
			if (!parent || parent === id || !this.nodes.has(parent)) roots.push(id);
			else if (children.has(parent)) children.get(parent).push(id);
			else children.set(parent, [id]);
		}
		const lines = [];
		const visited = new Set();
		const walk = (first) => {
			const pending = [[first, 1, true]];
			while (pending.length) {
				const [id, depth, shown] = pending.pop();
				if (visited.has(id)) continue;
				visited.add(id);
				const node = this.nodes.get(id);
				const below = children.get(id) ?? [];
				const open = !collapsed.has(id);
				if (shown && (node.buckets.size || below.length)) {
					lines.push({ key: `e${id}`, kind: 'entity', shape: 'entity', id, node, depth, open, children: below.length });
					if (open) this.addBuckets(lines, node, depth + 1);
				}
				for (let i = below.length - 1; i >= 0; i--) pending.push([below[i], depth + 1, shown && open]);
			}
		};
		roots.forEach(walk);
		if (visited.size < ids.length) ids.forEach((id) => visited.has(id) || walk(id));
		return lines;
	}

	addBuckets(lines, node, depth) {
		for (const resource of [...node.buckets.keys()].sort()) {
			lines.push(bucketLine(node.buckets.get(resource), depth));
		}
	}
}

export function bucketLine(row, depth) {
	return { key: keyOf(row.entity, row.resource), kind: 'bucket', shape: `bucket${row.limits.length}`, row, depth };
}
