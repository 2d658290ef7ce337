-- Exchanges wait in unnoted_exchange. Only the release before the previous one read them from the pairs.
alter table token_pair drop column unnoted_exchange;
