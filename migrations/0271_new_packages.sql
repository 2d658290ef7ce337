-- The transaction that creates a package claims its vendor, and gives it a place in the list by downloads.
drop trigger package_claims_its_vendor on package;
drop trigger new_packages_are_ranked on package;
drop function claim_vendor_of_package();
drop function rank_new_packages();
