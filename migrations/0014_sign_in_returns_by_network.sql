-- Requests of people who are not signed in leave a bounded number of places to return to, for each network (DESIGN §4).
-- The previous release does not know the column: its rows count as those of one network.
alter table sign_in_return add column network text not null default '';
create index sign_in_return_by_network on sign_in_return (network, expires_at);
