-- The parts of a session that its person sees: the browser, and the networks it was first and last used from. Null in sessions
-- that started before this release.
alter table session
  add column user_agent   text check (char_length(user_agent) <= 400),
  add column last_network text;
comment on column session.network is 'Where it was signed in from.';
