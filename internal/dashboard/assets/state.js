// What all views share.

// state holds what the server said about itself and the session.
export const state = { info: null };

// canChange reports whether the session may change limits and entities.
export function canChange() {
	return Boolean(state.info?.write && state.info.role === 'admin');
}

export function keyOf(entity, resource) {
	return JSON.stringify([entity, resource]);
}
