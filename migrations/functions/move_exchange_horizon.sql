-- Lets note_exchanges read the pairs up to the newest one. False when note_exchanges has not yet read all pairs below
-- the horizon, or when there is no newer pair.
--
-- A pair with a smaller id may be committed later. Its transaction got its transaction id (xid) before the pair got its
-- id. So that xid is smaller than the xid that this statement takes. When all transactions with smaller xids have
-- ended, all those pairs are committed or rolled back.
create or replace function move_exchange_horizon() returns boolean language plpgsql as $$
begin
  update sweep_position
     set horizon_id = newest.id, horizon_xid = pg_current_xact_id()::text::bigint
    from (select max(id) as id from token_pair) as newest
   where name = 'noted_exchanges' and pair_id >= horizon_id and newest.id > horizon_id;
  return found;
end
$$;
