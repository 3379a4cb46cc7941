"""The policies of other methods: the forms that they have, AutoAugment's as printed, and published files of all."""
