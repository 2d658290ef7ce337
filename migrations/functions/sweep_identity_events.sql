-- Does nothing. Only processes of the previous release call it: sweep_events now sweeps all events.
create or replace function sweep_identity_events(retention_days integer, ip_days integer, max_count integer)
returns integer language sql as 'select 0';
