//! Typed views of objects: structs that deserialize only some of a kind's fields.

/// Implements `kube::Resource` for a struct with a field `metadata`, so that `kube::Api` can read it in place of the
/// full kind. Fields that the struct does not have are never kept in memory.
#[macro_export]
macro_rules! view {
    ($view:ty, of $kind:ty) => {
        impl ::kube::Resource for $view {
            type DynamicType = ();
            type Scope = <$kind as ::kube::Resource>::Scope;

            fn kind(of: &()) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube::Resource>::kind(of)
            }

            fn group(of: &()) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube::Resource>::group(of)
            }

            fn version(of: &()) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube::Resource>::version(of)
            }

            fn plural(of: &()) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube::Resource>::plural(of)
            }

            fn meta(&self) -> &::kube::api::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ::kube::api::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
