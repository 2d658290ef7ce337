-- What only releases before the previous one have called: a process of them no longer runs beside this one.
drop function if exists registry_access(text, text, bytea);
drop function if exists explain_refused_codes(text[], bytea[], bytea[], text[], text[], bytea[]);
drop function if exists redeem_codes(text[], bytea[], bytea[], text[], text[], bytea[], bytea[], text[], integer, integer);
drop function if exists presented_codes(text[], bytea[], bytea[], text[], text[]);
drop function if exists explain_refused_refreshes(text[], bytea[], bytea[], text[], bytea[], integer);
drop function if exists refresh_pairs(
  text[], bytea[], bytea[], text[], bytea[], bytea[], bytea[], integer, integer, integer);
drop function if exists presented_pairs(text[], bytea[], bytea[], text[]);

-- Attempts have it.
alter table webhook_delivery drop column response;
