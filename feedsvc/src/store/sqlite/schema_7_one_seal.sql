-- Cursors of searches are sealed by the keys that gateways seal by, which are made anew every day; cursors from before are no more.
DROP TABLE cursor_secret;
