-- Only processes of the previous release call this, between two calls of note_exchanges. There is nothing to do.
create or replace function move_exchange_horizon() returns boolean language sql as 'select false';
