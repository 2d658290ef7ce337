-- Finds the pairs of the previous release whose exchange has no event yet. note_exchanges puts them into the queue. The
-- next release drops the index, the column, and the horizon in sweep_position.
create index concurrently if not exists pair_with_unnoted_exchange on token_pair (id) where unnoted_exchange is not null;
