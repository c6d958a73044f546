var e={render(){},traits:[]};export{e as default};
