//! Objects of which only a part is read.

/// Makes a type with a field `metadata` be read where objects of a kind are: in lists, watches and answers. Whatever else
/// the type does not have is never read into memory.
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
